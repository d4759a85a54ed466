package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in classes that are less than 2 % wide. Its size does not depend on
// the number of durations.
type Histogram [58 * 64]uint64

// Observe counts a duration. A negative duration counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	ns := uint64(max(0, d))
	// The seven highest bits select the class within an octave. The number of the other bits
	// selects the octave.
	octave := max(0, bits.Len64(ns)-7)
	h[octave*64+int(ns>>octave)]++
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Quantile returns the duration, in milliseconds, that the share q of all durations did not
// exceed. The result is the middle of a class, or 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) float64 {
	var all, seen uint64
	for _, n := range h {
		all += n
	}
	rank := uint64(q * float64(all))
	for i, n := range h {
		if seen += n; seen <= rank {
			continue
		}
		if i < 128 { // the first classes hold one nanosecond each
			return float64(i) / 1e6
		}
		octave := i/64 - 1
		return (float64(i-octave*64) + 0.5) * float64(uint64(1)<<octave) / 1e6
	}
	return 0
}
