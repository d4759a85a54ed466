package simulate

import (
	"slices"
	"time"
)

// maxBins bounds the memory of a timeline, and keeps its picture readable.
const maxBins = 150

// widths are the possible widths of a bin. Each is a multiple of the one before, so that bins can
// be merged.
var widths = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second,
	time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 10 * day, 100 * day, 1000 * day, 10_000 * day,
}

const day = 24 * time.Hour

// Timeline counts decisions by time, in bins of equal width. It chooses the width by itself: the
// narrowest that needs at most 150 bins. The zero value is an empty timeline.
type Timeline struct {
	width int // the index in widths
	bins  map[int64]Bin
	low   int64 // the numbers of the first and the last bin
	high  int64
}

// Daily returns an empty timeline whose narrowest bins are days.
func Daily() *Timeline { return &Timeline{width: slices.Index(widths, day)} }

// Bin counts the decisions in a span of time.
type Bin struct {
	Start             time.Time
	Accepted, Refused int64
}

// Add counts a decision.
func (t *Timeline) Add(at time.Time, accepted bool) {
	micros := at.UnixMicro()
	n := t.number(micros)
	if t.bins == nil {
		t.bins, t.low, t.high = make(map[int64]Bin), n, n
	}
	for max(n, t.high)-min(n, t.low) >= maxBins && t.width < len(widths)-1 {
		t.widen()
		n = t.number(micros)
	}
	t.low, t.high = min(n, t.low), max(n, t.high)
	b := t.bins[n]
	if accepted {
		b.Accepted++
	} else {
		b.Refused++
	}
	t.bins[n] = b
}

// number returns the number of the bin of a time.
func (t *Timeline) number(micros int64) int64 {
	return floorDiv(micros, widths[t.width].Microseconds())
}

// widen merges the bins into bins of the next width.
func (t *Timeline) widen() {
	ratio := int64(widths[t.width+1] / widths[t.width])
	merged := make(map[int64]Bin)
	for n, b := range t.bins {
		m := merged[floorDiv(n, ratio)]
		m.Accepted += b.Accepted
		m.Refused += b.Refused
		merged[floorDiv(n, ratio)] = m
	}
	t.bins, t.low, t.high = merged, floorDiv(t.low, ratio), floorDiv(t.high, ratio)
	t.width++
}

// floorDiv divides and rounds towards minus infinity, for times before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Width returns the width of a bin.
func (t *Timeline) Width() time.Duration { return widths[t.width] }

// Bins returns the bins that contain a decision, in the order of time.
func (t *Timeline) Bins() []Bin {
	all := make([]Bin, 0, len(t.bins))
	for n, b := range t.bins {
		b.Start = time.UnixMicro(n * widths[t.width].Microseconds()).UTC()
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Bin) int { return a.Start.Compare(b.Start) })
	return all
}
