// Package windows checks that no window of time admits more than a bucket does.
package windows

import (
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// slot is the resolution of the times of admissions.
const slot = time.Millisecond

// Span is the slots in which a call, or a burst of calls, began and ended. Most begin and end in
// the same slot.
type Span struct{ First, Last int }

// Admitted is the number of admitted units by the spans of their calls.
type Admitted map[Span]uint64

// unsure widens each span on both sides. Processes read the same clock at different moments, and
// servers return whole microseconds.
const unsure = 10 * time.Microsecond

// Note adds units that were admitted between two times.
func (all Admitted) Note(before, after time.Duration, units uint64) {
	all[Span{int(max(0, before-unsure) / slot), int((after + unsure) / slot)}] += units
}

// Within returns the largest share of its bound that any window of whole slots has admitted. The
// bound of a window is capacity + leak rate x length. A share above 1 is a broken bound.
//
// A unit was admitted at some moment of its call or burst. The unit therefore counts in the windows
// that contain the whole span, and in no other: every unit that counts in a window was certainly
// admitted within that window, and no alarm is false. The check misses little, because a burst of
// calls that are served from memory ends within its slot.
func (all Admitted) Within(l store.Limit) (closest float64, err error) {
	slots := 0
	from := map[int][]Span{} // by first slot
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

// Total returns the number of all units.
func (all Admitted) Total() (units uint64) {
	for _, n := range all {
		units += n
	}
	return units
}

// Add adds the admissions of others.
func (all Admitted) Add(others Admitted) {
	for s, n := range others {
		all[s] += n
	}
}
