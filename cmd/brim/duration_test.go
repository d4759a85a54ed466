package main

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, tc := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"90s", 90 * time.Second, true},
		{"15m", 15 * time.Minute, true},
		{"24h", day, true},
		{"30d", 30 * day, true},
		{"2w", 14 * day, true},
		{"1.5d", 36 * time.Hour, true},
		{"1d12h30m", 36*time.Hour + 30*time.Minute, true},
		{"250ms", 250 * time.Millisecond, true},
		{"3µs", 3 * time.Microsecond, true},
		{"0s", 0, true},
		{"106751d", 106751 * day, true},
		{"106752d", 0, false}, // more than a Duration holds
		{"106751d24h", 0, false},
		{"9999999999999999999d", 0, false},
		{"", 0, false},
		{"90", 0, false},
		{"d", 0, false},
		{"-5s", 0, false},
		{"+5s", 0, false},
		{"5 s", 0, false},
		{"1..5s", 0, false},
		{".d", 0, false},
		{"5y", 0, false},
		{"5sd", 0, false},
		{"1e3s", 0, false},
	} {
		got, err := parseDuration(tc.text)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %v and %v; want %v, ok %v", tc.text, got, err, tc.want, tc.ok)
		}
	}
}

// FuzzParseDuration holds the parser against time.ParseDuration for all that both read.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90s", "30d", "1d12h", "1.5h30m", "µs", "0", "106752d", ".5w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseDuration(s)
		if got < 0 {
			t.Errorf("%q is negative: %v", s, got)
		}
		want, e := time.ParseDuration(s)
		if e == nil && s != "0" && s[0] != '-' && s[0] != '+' && (err != nil || got != want) {
			t.Errorf("%q: got %v and %v; want %v", s, got, err, want)
		}
		if err == nil {
			if again, e := parseDuration(got.String()); e != nil || again != got {
				t.Errorf("%v, as it is written, reads as %v and %v", got, again, e)
			}
		}
	})
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{time.Microsecond, "1µs"},
		{1500100 * time.Microsecond, "1.501s"}, // rounded up: whoever waits that long has waited enough
		{time.Minute + time.Millisecond, "1m1s"},
		{2 * time.Hour, "2h"},
		{90 * time.Minute, "1h30m"},
		{47*time.Hour + 59*time.Minute + 59*time.Second, "47h59m59s"},
		{2 * day, "2d"},
		{3*day + 4*time.Hour + time.Second, "3d4h1m"},
		{3*day - time.Second, "3d"},
		{math.MaxInt64 - 1, "106751d23h47m16.854775806s"},
		{math.MaxInt64, "never"},
	} {
		if got := span(tc.d); got != tc.want {
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
		if got := clockTime(tc.at, now); got != tc.want {
			t.Errorf("%v: got %q; want %q", tc.at, got, tc.want)
		}
	}
}
