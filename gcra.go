package brim

import "time"

// GCRA returns the limit and the cost of a cell that make a bucket the generic cell rate algorithm: one cell per emission
// interval, and any cell up to tolerance ahead of its time (T and tau in ITU-T I.371). Every cell is an amount of cost:
//
//	limit, cost := brim.GCRA(time.Second/50, 200*time.Millisecond)
//	st, err := lim.TryFillup(ctx, limit.For("port:7"), cost)
//
// Units are nanoseconds: a cell costs the interval, a second leaks 10^9 of them, and the bucket holds interval and tolerance
// together, with half a nanosecond on top. That half is there because the leak of a whole number of microseconds, computed in
// doubles, is not always whole: without it a cell that comes exactly at the earliest time allowed would now and then be
// refused. Decisions are those of the algorithm, ties included, while the bucket is empty once in three weeks or more often.
//
// Interval and tolerance together are less than 2^52 nanoseconds, about 52 days. Beyond that, and where the interval is not
// positive or the tolerance negative, every call with the limit is refused with [ErrInvalidLimit].
func GCRA(interval, tolerance time.Duration) (limit Limit, cost float64) {
	const longest = 1<<52 - 1 // beyond it a double has no halves
	if interval <= 0 || tolerance < 0 || interval > longest || tolerance > longest-interval {
		return Limit{}, 0
	}
	return Limit{Capacity: float64(interval+tolerance) + 0.5, LeakRate: 1e9}, float64(interval)
}
