package trace

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
)

// FuzzReader gives arbitrary input to the parsers of access logs, CSV and JSON lines, plain and
// compressed. No parser may panic, and a store must be able to decide every request that a parser
// returns.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		common, combined, "time,key,cost\n1,a,2\n", `{"time":1.5,"key":"k","cost":2}`, "\x1f\x8b\x08\x00", "\xef\xbb\xbf{", "\"", "a,\"time\n",
	} {
		f.Add(s, "", false)
		f.Add(s, "path", true)
	}
	f.Fuzz(func(t *testing.T, text, key string, bytes bool) {
		requests, bad, _ := all(t, strings.NewReader(text), Options{Key: key, Cost: Cost{Bytes: bytes}})
		line := 0
		for _, r := range requests {
			if !(r.Cost >= 0 && r.Cost <= 1<<53) {
				t.Errorf("line %d has cost %v", r.Line, r.Cost)
			}
			if r.Time < minSeconds*1e6-1e12 || r.Time > maxSeconds*1e6+1e12 {
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

// FuzzSplitCSV compares splitCSV with encoding/csv. Both must cut a line in the same way if
// encoding/csv reads it as one record.
func FuzzSplitCSV(f *testing.F) {
	for _, s := range []string{"a,b", `a,"b,""c"`, `"a`, `a"b`, ",", `"",x`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		row, ok := splitCSV([]byte(line), nil)
		r := csv.NewReader(strings.NewReader(line))
		want, err := r.Read()
		if err != nil || strings.ContainsAny(line, "\r\n") {
			return
		}
		if !ok || !slices.Equal(row, want) {
			t.Errorf("%q: got %q, %v; want %q", line, row, ok, want)
		}
	})
}
