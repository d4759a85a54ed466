package trace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// FuzzReader gives arbitrary input to the parsers of access logs, CSV and JSON lines, plain and
// compressed. No parser may panic, and a store must be able to decide every request that a parser
// returns.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		common, combined, nginx, "time,key,cost\n1,a,2\n", `{"time":1.5,"key":"k","cost":2}`, "\x1f\x8b\x08\x00", "\xef\xbb\xbf{", "\"", "a,\"time\n",
	} {
		f.Add(s, "", "", false)
		f.Add(s, "path", Start, true)
		f.Add(s, "a.b", "t", false)
	}
	f.Fuzz(func(t *testing.T, text, key, time string, bytes bool) {
		requests, bad, _ := all(t, strings.NewReader(text), Options{Key: key, Time: time, Cost: Cost{Bytes: bytes}})
		line := 0
		for _, r := range requests {
			if !(r.Cost >= 0 && r.Cost <= 1<<53) {
				t.Errorf("line %d has cost %v", r.Line, r.Cost)
			}
			if r.Time < minSeconds*1e6-1e15-1e12 || r.Time > maxSeconds*1e6+1e12 {
				t.Errorf("line %d has time %d", r.Line, r.Time)
			}
			if r.Line <= line {
				t.Errorf("line %d comes after line %d", r.Line, line)
			}
			line = r.Line
		}
		if lines := strings.Count(text, "\n") + 1; len(requests)+len(bad) > lines &&
			!strings.HasPrefix(text, "\x1f\x8b") {
			t.Errorf("%d requests and %d line errors out of %d lines", len(requests), len(bad), lines)
		}
	})
}

// FuzzTime reads arbitrary times. A time is an error, or lies in the years 0 to 9999 with a margin
// for zones. Both spellings of one time read as the same.
func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"1995-08-01T06:00:00Z", "1995-08-01T06:00:00.123456789+14:00", "0000-01-01T00:00:00+23:59", "807256800.25", "-1.5", "-0.25",
		"8.07e8", "1700000000123", "1700000000123.5", "1700000000123456", "-1700000000123456789", "1e300", "NaN", "9223372036854775807", "253402300799.9999999", ".5", "5.", "-.5",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		us, err := new(times).parse(s)
		if err != nil {
			if us != 0 {
				t.Errorf("%q: %d, %v", s, us, err)
			}
			return
		}
		const zone = 25 * 3600 // seconds: package time takes offsets of up to 24:59
		if us < (minSeconds-zone)*1e6 || us > (maxSeconds+zone+1)*1e6 {
			t.Errorf("%q is %d us, outside of the years 0 to 9999", s, us)
		}
		text := strconv.FormatFloat(math.Abs(float64(us/1e6)), 'f', 0, 64) + fmt.Sprintf(".%06d", max(us, -us)%1e6)
		if us < 0 {
			text = "-" + text
		}
		if us < minSeconds*1e6 || us >= 1e17 {
			return // as a number, the time would lie before the year 0, or count milliseconds
		}
		if again, err := new(times).parse(text); err != nil || again != us {
			t.Errorf("%q is %d us; %q reads as %d, %v", s, us, text, again, err)
		}
	})
}

// FuzzCost reads arbitrary costs, of a flag and of a line.
func FuzzCost(f *testing.F) {
	for _, s := range []string{"bytes", "1", "0", "1e-320", "9007199254740992", "9007199254740993", "NaN", "-1", "", "0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCost(s)
		if err != nil && (c != (Cost{}) || !strings.Contains(err.Error(), strconv.Quote(s))) ||
			err == nil && c.Bytes == (c.Units > 0) || !(c.Units >= 0 && c.Units <= 1<<53) {
			t.Errorf("%q: %+v, %v", s, c, err)
		}
		n, err := parseCost(s)
		if !(n >= 0 && n <= 1<<53) || err != nil && n != 0 {
			t.Errorf("%q of a line: %v, %v", s, n, err)
		}
	})
}
