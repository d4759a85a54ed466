package plot

import (
	"fmt"
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

// Timeline counts decisions by time, in bins of equal width, and draws them. It chooses the width
// by itself: the narrowest that needs at most 150 bins. The zero value is an empty timeline.
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

// span is a unit of the X axis.
type span struct {
	name  string
	width time.Duration
}

// spans are the units of the X axis, the longest first.
var spans = []span{
	{"days", day}, {"hours", time.Hour}, {"minutes", time.Minute}, {"seconds", time.Second},
}

// spanOf returns the longest unit of which d has at least three.
func spanOf(d time.Duration) span {
	for _, s := range spans {
		if d >= 3*s.width {
			return s
		}
	}
	return spans[len(spans)-1]
}

// in returns a duration in units of the axis.
func (s span) in(d time.Duration) float64 { return float64(d) / float64(s.width) }

// Picture draws accepted and refused requests per bin over the time. The width is that of the
// plotted area in pixels; 0 means 560.
func (t *Timeline) Picture(title string, width float64) string {
	return t.picture(title, width, "requests", "accepted", "refused")
}

// FlipPicture draws decisions per bin over the time: accepted are those that stay, and refused
// those that other rules would make otherwise. The width is as for Picture.
func (t *Timeline) FlipPicture(title string, width float64) string {
	return t.picture(title, width, "decisions", "the same", "flipped")
}

func (t *Timeline) picture(title string, width float64, things, accepted, refused string) string {
	bins := t.Bins()
	f := Figure{
		Title: title,
		Description: fmt.Sprintf("Two curves over the time of the %s: how many were %s, and how many %s, in each interval.",
			things, accepted, refused),
		Width: width,
		X:     Axis{Label: "no " + things},
		Y:     Axis{Label: things + " in " + name(t.Width())},
	}
	if len(bins) > 0 {
		start := bins[0].Start
		end := bins[len(bins)-1].Start.Add(t.Width()).Sub(start)
		s := spanOf(end)
		f.X = Axis{Label: s.name + " since " + start.Format("2006-01-02 15:04:05") + " UTC", Max: s.in(end)}
		var up, down []Point
		for i, b := range bins {
			x := s.in(b.Start.Sub(start))
			if i > 0 {
				if before := bins[i-1].Start.Add(t.Width()); before.Before(b.Start) { // bins without requests
					up = append(up, Point{X: s.in(before.Sub(start))})
					down = append(down, Point{X: s.in(before.Sub(start))})
				}
			}
			up = append(up, Point{X: x, Y: float64(b.Accepted)})
			down = append(down, Point{X: x, Y: float64(b.Refused)})
		}
		f.Curves = []Curve{
			{Name: accepted, Points: Steps(up, s.in(end))},
			{Name: refused, Color: Orange, Points: Steps(down, s.in(end))},
		}
	}
	return f.SVG()
}

// name writes a width of bins.
func name(d time.Duration) string {
	switch {
	case d >= day:
		return fmt.Sprintf("%d d", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d >= time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d ms", d/time.Millisecond)
}
