package simulate

import (
	"slices"
	"testing"
	"time"
)

// TestOrderIsBounded has more arrivals than may wait, of one instant and of many, in order but for
// one that comes late. The order gives back the earliest early, each once, and counts the late one.
func TestOrderIsBounded(t *testing.T) {
	const most, lines = 100, 1000
	for _, c := range []struct {
		name  string
		at    func(line int) int64
		lates int64
		full  bool
	}{
		{"one instant", func(int) int64 { return 7 }, 0, true},
		{"in order", func(line int) int64 { return int64(line) }, 0, true},
		{"late by fewer than wait", func(line int) int64 { return map[bool]int64{true: 450, false: int64(line)}[line == 500] }, 0, true},
		{"late by more than wait", func(line int) int64 { return map[bool]int64{true: 1, false: int64(line)}[line == 500] }, 1, true},
		{"few in the window", func(line int) int64 { return int64(line) * time.Minute.Microseconds() }, 0, false},
	} {
		o := newOrder(time.Hour)
		o.most = most
		var got []Arrival
		for line := 0; line < lines; line += 10 {
			var chunk []Arrival
			for i := line; i < line+10; i++ {
				chunk = append(chunk, Arrival{Line: i, Time: c.at(i)})
			}
			got = append(got, o.add(chunk, line+10 == lines)...)
			if len(o.waiting) > most {
				t.Fatalf("%s: %d arrivals wait; want at most %d", c.name, len(o.waiting), most)
			}
		}
		if o.disorder.Late != c.lates || o.disorder.Full != c.full {
			t.Errorf("%s: %+v; want %d late, full %v", c.name, o.disorder, c.lates, c.full)
		}
		sorted := slices.IsSortedFunc(got, func(a, b Arrival) int {
			if a.Time != b.Time {
				return int(a.Time - b.Time)
			}
			return a.Line - b.Line
		})
		if len(got) != lines || sorted != (c.lates == 0) {
			t.Errorf("%s: %d arrivals, sorted %v", c.name, len(got), sorted)
		}
	}
}
