package main

import (
	"fmt"
	"time"

	"github.com/brimgo/brim"
)

// slot is the resolution of the times of admissions.
const slot = time.Millisecond

// span is the slots in which a call, or a burst of calls, began and ended. Most begin and end in
// the same slot.
type span struct{ First, Last int }

// admitted is the number of admitted units by the spans of their calls.
type admitted map[span]uint64

// within returns the largest share of its bound that any window of whole slots has admitted. The
// bound of a window is capacity + leak rate x length. A share above 1 is a broken bound.
//
// A unit was admitted at some moment of its call or burst. The unit therefore counts in the windows
// that contain the whole span, and in no other: every unit that counts in a window was certainly
// admitted within that window, and no alarm is false. The check misses little, because a burst of
// calls that are served from memory ends within its slot.
func within(all admitted, l brim.Limit) (closest float64, err error) {
	slots := 0
	from := map[int][]span{} // by first slot
	for s := range all {
		if s.First < 0 || s.Last < s.First {
			return 0, fmt.Errorf("a call lasts from slot %d to slot %d", s.First, s.Last)
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

// total returns the number of all units.
func (all admitted) total() (units uint64) {
	for _, n := range all {
		units += n
	}
	return units
}

// add adds the admissions of others.
func (all admitted) add(others admitted) {
	for s, n := range others {
		all[s] += n
	}
}
