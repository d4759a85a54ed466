package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// MaxWaiting is the number of arrivals of a log that wait for earlier ones at most, which bounds
// the memory: a million take 300 MB with short keys. Of more, the earliest wait no longer.
const MaxWaiting = 1_000_000

// order sorts arrivals by their time within a window, and counts those that are out of order.
// Arrivals of one time stay in the order of their lines.
type order struct {
	window   int64 // microseconds
	most     int   // arrivals that wait
	newest   int64
	waiting  []Arrival // sorted; an earlier arrival may still come
	released int64     // the time of the last arrival that waits no longer
	disorder Disorder
}

// Disorder counts lines of a log that are older than a line before them.
type Disorder struct {
	Lines int64         // all of them
	Late  int64         // those that came more than the window late; they are decided after the lines before them
	Most  time.Duration // the largest difference to a line before: a window of this length sorts all lines, unless Full
	Full  bool          // MaxWaiting was reached: some lines have waited for less than the window
}

func newOrder(window time.Duration) *order {
	return &order{window: window.Microseconds(), most: MaxWaiting, newest: math.MinInt64, released: math.MinInt64}
}

// add takes arrivals, and returns those before which none can come any more, or all of them at the
// end. A window of 0 sorts nothing. The result is valid until the next call.
func (o *order) add(arrivals []Arrival, end bool) []Arrival {
	first := int64(math.MaxInt64 - 1)
	for i := range arrivals {
		a := &arrivals[i]
		if a.Time < o.newest {
			o.disorder.Lines++
			o.disorder.Most = max(o.disorder.Most, time.Duration(o.newest-a.Time)*time.Microsecond)
		}
		if a.Time < o.released || a.Time < o.newest && o.window == 0 {
			o.disorder.Late++
		}
		o.newest, first = max(o.newest, a.Time), min(first, a.Time)
	}
	if o.window == 0 {
		return arrivals
	}
	// The arrivals of the time first stay before the new ones.
	tail, _ := slices.BinarySearchFunc(o.waiting, first+1, func(a Arrival, t int64) int { return cmp.Compare(a.Time, t) })
	o.waiting = append(o.waiting, arrivals...)
	slices.SortStableFunc(o.waiting[tail:], func(a, b Arrival) int { return cmp.Compare(a.Time, b.Time) })
	n := len(o.waiting)
	if !end && n > 0 {
		n, _ = slices.BinarySearchFunc(o.waiting, o.newest-o.window, func(a Arrival, t int64) int { return cmp.Compare(a.Time, t) })
		if excess := len(o.waiting) - o.most; excess > n {
			n, o.disorder.Full = excess, true
		}
	}
	ready := o.waiting[:n:n]
	if o.waiting = o.waiting[n:]; n > 0 {
		o.released = max(o.released, ready[n-1].Time)
	}
	return ready
}
