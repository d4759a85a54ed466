package pgrun

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestProbation finds a row held for a second at times, and asks how long its calls use the slow lane
// afterwards.
func TestProbation(t *testing.T) {
	name := slices.Values([]string{"a"})
	for _, c := range []struct {
		why    string
		pauses []time.Duration // before the row is held, each time
		want   time.Duration
	}{
		{"the first probation is short", []time.Duration{0}, firstProbation},
		{"a row that is held again within it", []time.Duration{0, time.Millisecond}, firstProbation},
		{"a row that is held again after its probation", []time.Duration{0, firstProbation}, 2 * firstProbation},
		{"and again", []time.Duration{0, firstProbation, time.Second}, 4 * firstProbation},
		{"there is a longest one", slices.Repeat([]time.Duration{lastProbation}, 20), lastProbation},
		{"a row is forgotten", []time.Duration{0, remembered + 1}, firstProbation},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := held{rows: make(map[string]sighting)}
			for _, pause := range c.pauses {
				time.Sleep(pause) // of a synctest bubble
				h.found(name, inserting)
				time.Sleep(lastProbation) // the row stays held
				if h.of(name) != inserting || !h.any() || len(h.list()) != 1 || h.of(slices.Values([]string{"b"})) != free {
					t.Errorf("%s: the row is not remembered, or another is", c.why)
				}
				h.served(name)
			}
			time.Sleep(c.want - time.Nanosecond)
			before := h.of(name)
			time.Sleep(time.Nanosecond)
			if before != inserting || h.of(name) != free || len(h.list()) != 0 {
				t.Errorf("%s: %v before and %v after %v; want a probation of this length", c.why, before, h.of(name), c.want)
			}
		})
	}
}
