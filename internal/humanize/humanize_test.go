package humanize

import (
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/store"
)

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{time.Microsecond, "1µs"},
		{1500100 * time.Microsecond, "1.501s"}, // the printed time is long enough
		{time.Minute + time.Millisecond, "1m1s"},
		{2 * time.Hour, "2h"},
		{90 * time.Minute, "1h30m"},
		{47*time.Hour + 59*time.Minute + 59*time.Second, "47h59m59s"},
		{2 * duration.Day, "2d"},
		{3*duration.Day + 4*time.Hour + time.Second, "3d4h1m"},
		{3*duration.Day - time.Second, "3d"},
		{store.Never - 1, "53375d23h54m"},
		{store.Never, "never"},
		{math.MaxInt64, "never"},
	} {
		if got := Span(tc.d); got != tc.want {
			t.Errorf("%d: got %q; want %q", tc.d, got, tc.want)
		}
	}
}

func TestClockTime(t *testing.T) {
	now := time.Date(2024, 2, 29, 10, 0, 0, 0, time.Local)
	for _, tc := range []struct {
		at   time.Time
		want string
	}{
		{now.Add(1500 * time.Millisecond), "10:00:02"},
		{now.Add(14 * time.Hour), "2024-03-01 00:00:00"},
		{now.AddDate(1, 0, 0), "2025-03-01 10:00:00"},
	} {
		if got := Clock(tc.at, now); got != tc.want {
			t.Errorf("%v: got %q; want %q", tc.at, got, tc.want)
		}
	}
}

func TestKey(t *testing.T) {
	for key, want := range map[string]string{
		"tenant:42": "tenant:42", "a<b>&\"c\"": "a<b>&\"c\"", "שלום": "שלום", "a\nb": `"a\nb"`,
		"card\u202e4242": `"card\u202e4242"`, "a\u200bb": `"a\u200bb"`,
		"\x1b[2J": `"\x1b[2J"`, "a\u009bb": `"a\u009bb"`, "a\x9bb": `"a\x9bb"`, "a\ufffdb": "a\ufffdb",
	} {
		if got := Key(key); got != want {
			t.Errorf("%q is shown as %s, want %s", key, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"a \"b\" \\ שלום": "a \"b\" \\ שלום", "a\nb\r\x1b[2J\x7f": `a\nb\r\x1b[2J\x7f`, "\u009b\x9b\u202e\ufffd": `\u009b\x9b\u202e` + "\ufffd",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 buckets": Count(0, "bucket"), "1 bucket": Count(1, "bucket"), "2 entries": Count(int64(2), "entry"),
		"1 entry": Count(uint64(1), "entry"), "2 keys": Count(2, "key"),
	} {
		if got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for amount, want := range map[float64]string{
		0: "0", 10_000: "10000", 2.5: "2.5", 1.0 / 3: "0.333333", 3.0000001: "3", 1e-9: "0.000000001", 1.05785e-7: "0.000000105785", 9.9999999e-7: "0.000001",
		-1.5e-8: "-0.000000015", 1e-12: "0.000000000001", 1e-300: "below 0.000000000001", -1e-300: "above -0.000000000001", 1 << 53: "9007199254740992",
	} {
		if got := Units(amount); got != want {
			t.Errorf("%v is shown as %s, want %s", amount, got, want)
		}
	}
}
