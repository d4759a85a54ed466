package main

import (
	"fmt"
	"time"

	"github.com/brimgo/brim"
)

// slot is how finely admissions are placed in time.
const slot = time.Millisecond

// span is the slots in which a call began and ended, the same for most.
type span struct{ First, Last int }

// admitted is the units that were let in, by the spans of the calls that put them in.
type admitted map[span]uint64

// within reports whether the admissions keep to l in every window of whole slots, and which share of what l allows they took in
// the window that comes closest to it.
//
// A unit was let in at some moment of its call, so it counts in a window that holds the call wholly, and in no other: what is
// counted in a window was certainly let in within it. A window that has more than capacity + rate x length is therefore a
// broken bound, and no alarm is false. Little escapes: a call that is served from memory is over within its slot.
func within(all admitted, l brim.Limit) (closest float64, err error) {
	slots := 0
	from := map[int][]span{} // by first slot
	for s := range all {
		if s.First < 0 || s.Last < s.First {
			return 0, fmt.Errorf("a call from slot %d to %d", s.First, s.Last)
		}
		slots = max(slots, s.Last+1)
		from[s.First] = append(from[s.First], s)
	}
	ending := make([]uint64, slots) // units of calls that began in first or later, by last slot
	for first := slots - 1; first >= 0; first-- {
		for _, s := range from[first] {
			ending[s.Last] += all[s]
		}
		units := uint64(0)
		for last := first; last < slots; last++ {
			units += ending[last]
			allowed := l.Capacity + l.LeakRate*(time.Duration(last-first+1)*slot).Seconds()
			closest = max(closest, float64(units)/allowed)
		}
	}
	return closest, nil
}

// total is the units of all.
func (all admitted) total() (units uint64) {
	for _, n := range all {
		units += n
	}
	return units
}

// add puts the admissions of others to these.
func (all admitted) add(others admitted) {
	for s, n := range others {
		all[s] += n
	}
}
