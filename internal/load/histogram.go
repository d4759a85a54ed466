package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in classes of under 2 %. It has one size, however many it counts.
type Histogram [58 * 64]uint64

// Observe counts a duration; a negative one is 0.
func (h *Histogram) Observe(d time.Duration) {
	ns := uint64(max(0, d))
	// Seven significant bits are the class, the rest of the length its octave.
	octave := max(0, bits.Len64(ns)-7)
	h[octave*64+int(ns>>octave)]++
}

// Add counts what another has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Quantile reports, in milliseconds, the duration that the share q of all stayed within: the middle of its class. It is 0
// where nothing was counted.
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
