package simulate

import (
	"time"

	"github.com/brimgo/brim/internal/plot"
)

// SharePicture draws the share of refused requests by the capacity of the limits, where it is not
// 0. A guide marks the share that may be refused, if that is not negative, and a text the smallest
// capacity that suffices.
func SharePicture(title string, outcomes []Outcome, refuse float64) string {
	f := plot.Figure{
		Title: title,
		Description: "A curve of the share of refused requests, by the capacity of the limit, on logarithmic axes. " +
			"It ends at the last capacity that refuses a request.",
		X: plot.Axis{Label: "capacity in units", Log: true},
		Y: plot.Axis{Label: "refused, % of the requests", Log: true},
	}
	var points []plot.Point
	for i := range outcomes {
		if share := outcomes[i].Share(); share > 0 {
			points = append(points, plot.Point{X: outcomes[i].Limit.Capacity, Y: 100 * share})
		}
	}
	f.Curves = []plot.Curve{{Points: points, Dots: true}}
	if refuse >= 0 {
		f.Guides = []plot.Guide{{At: 100 * refuse, Label: plot.Number(100*refuse) + " %"}}
		if n := Smallest(outcomes, refuse); n >= 0 {
			at := plot.Point{X: outcomes[n].Limit.Capacity, Y: 100 * outcomes[n].Share()}
			text := "capacity " + plot.Number(at.X)
			at.X *= 1.05 // beside the dot
			f.Notes = []plot.Note{{At: at, Text: text}}
		}
	}
	return f.SVG()
}

// maxCrosses is the largest number of refusals that a picture of levels marks. More of them would
// cover the curve.
const maxCrosses = 400

// Levels records the level of one bucket: pass its method Add as the Watch of a run. The zero value
// records the bucket of the first arrival.
type Levels struct {
	key     string
	started bool
	changes []plot.Point // seconds after Start, and units
	refused []plot.Point
}

// Add records a decision about the bucket.
func (l *Levels) Add(e Event) {
	if !l.started {
		l.key, l.started = e.Arrival.Key, true
	}
	if e.Arrival.Key != l.key {
		return
	}
	p := plot.Point{X: e.At.Sub(Start).Seconds(), Y: e.Level}
	l.changes = append(l.changes, p)
	if !e.Accepted {
		l.refused = append(l.refused, p)
	}
}

// Picture draws the level of the bucket from [Start] until the given time, exactly between the
// decisions, with a cross for each refusal or overflow if there are not too many. Of a bucket that
// is filled up to the rim it draws the rest of the leak, too. The width is that of the plotted area
// in pixels; 0 means 560.
func (l *Levels) Picture(title string, limit Limit, until time.Duration, width float64) string {
	rises, cross, crosses := "accepted request", "a refused request", "refused requests"
	end := until.Seconds()
	if limit.Use.Fillup {
		rises, cross, crosses = "request, at most to the capacity", "an overflow", "overflows"
		if n := len(l.changes); n > 0 && limit.LeakRate > 0 {
			end = max(end, l.changes[n-1].X+l.changes[n-1].Y/limit.LeakRate)
		}
	}
	f := plot.Figure{
		Title: title,
		Description: "The level of one bucket over the time. It rises with each " + rises + ", and falls at the " +
			"leak rate. A dashed line marks the capacity.",
		Width:  width,
		X:      plot.Axis{Label: "seconds; a cross marks " + cross, Max: end},
		Y:      plot.Axis{Label: "level of " + l.key + ", in units", Max: 1.15 * limit.Capacity}, // room for the label
		Guides: []plot.Guide{{At: limit.Capacity, Label: "the capacity"}},
		Curves: []plot.Curve{{Points: plot.Level(append([]plot.Point{{}}, l.changes...), limit.LeakRate, end)}},
	}
	if len(l.refused) > maxCrosses {
		f.X.Label = "seconds; the " + crosses + " are too many to mark"
	} else {
		for _, p := range l.refused {
			f.Marks = append(f.Marks, plot.Mark{At: p, Shape: plot.Cross, Color: plot.Orange})
		}
	}
	return f.SVG()
}
