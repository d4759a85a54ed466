package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"90s", 90 * time.Second, true},
		{"15m", 15 * time.Minute, true},
		{"24h", Day, true},
		{"30d", 30 * Day, true},
		{"2w", 14 * Day, true},
		{"1.5d", 36 * time.Hour, true},
		{"1d12h30m", 36*time.Hour + 30*time.Minute, true},
		{"250ms", 250 * time.Millisecond, true},
		{"3µs", 3 * time.Microsecond, true},
		{"0s", 0, true},
		{"106751d", 106751 * Day, true},
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
		got, err := Parse(tc.text)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %v and %v; want %v, ok %v", tc.text, got, err, tc.want, tc.ok)
		}
	}
}

// FuzzParse compares the parser with time.ParseDuration on the inputs that both read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"90s", "30d", "1d12h", "1.5h30m", "µs", "0", "106752d", ".5w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Parse(s)
		if got < 0 {
			t.Errorf("%q is negative: %v", s, got)
		}
		want, e := time.ParseDuration(s)
		if e == nil && s != "0" && s[0] != '-' && s[0] != '+' && (err != nil || got != want) {
			t.Errorf("%q: got %v and %v; want %v", s, got, err, want)
		}
		if err == nil {
			if again, e := Parse(got.String()); e != nil || again != got {
				t.Errorf("%v, as it is written, reads as %v and %v", got, again, e)
			}
		}
	})
}

// The flag packages print the default value of a flag by String of a zero Value, too.
func TestValue(t *testing.T) {
	v := Value(5 * time.Second)
	if got := v.String(); got != "5s" {
		t.Errorf("the value is written %q, want 5s", got)
	}
	if err := v.Set("2d"); err != nil || v.Std() != 2*Day {
		t.Errorf("set to 2d, the value is %v, %v", v.Std(), err)
	}
	if err := v.Set("2 days"); err == nil {
		t.Error("the value takes 2 days")
	}
	if got := new(Value).String(); got != "0s" {
		t.Errorf("the zero value is written %q, want 0s", got)
	}
}
