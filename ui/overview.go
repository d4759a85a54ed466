package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
)

// The most rows of the tables on the overview.
const (
	mostRefused = 20
	mostBlocked = 100
)

// overviewPage is the first page: who is limited now, since when, how much, and whether the limiter
// is healthy. It needs no listing, except for blocked buckets of which the Recorder saw no call.
type overviewPage struct {
	frame
	Health   health
	Recorded bool
	Rates    rates
	Chart    template.HTML
	Refused  []refusedRow
	More     string
	Blocked  []blockedRow
	Note     string // how complete the blocked buckets are
	Fullest  []rowView
	Act      bool
}

// rates are numbers about all decisions.
type rates struct{ Decisions, Refused, Share, All string }

type refusedRow struct {
	name
	Rate, Since, Blocked, All string
	Now                       bool
	Course                    template.HTML
}

type blockedRow struct {
	name
	Until, For string
}

// name is a key as a page shows it, and the form that its address has.
type name struct{ Key, Form string }

func (h *Handler) name(key string) name {
	form := h.shown(key)
	return name{humanize.Key(form), form}
}

// overview shows the overview.
func (h *Handler) overview(w http.ResponseWriter, v *visit) {
	o := h.recorder.overview()
	page := overviewPage{
		frame: h.frame("Overview", "overview"), Health: h.health(v.Context(), o), Recorded: h.recorded, Act: v.access == Act,
	}
	wait := time.Duration(0)
	if !h.recorded { // the page has little else to show
		wait = time.Second
	}
	l, f := h.latest(v.Context(), wait)
	page.Blocked, page.Note = h.blocked(l, f, o)
	if h.recorded {
		page.Rates, page.Chart = o.rates(), o.chart()
		for _, t := range o.keys[:min(mostRefused, len(o.keys))] {
			page.Refused = append(page.Refused, h.refused(&t, o))
		}
		if more := len(o.keys) - mostRefused; more > 0 {
			page.More = plural(int64(more), "further bucket was", "further buckets were")
		}
	} else if l != nil {
		for i := range l.rows[:min(mostRefused, len(l.rows))] {
			page.Fullest = append(page.Fullest, newRow(&l.rows[i]))
		}
	}
	h.render(w, http.StatusOK, "overview", page)
}

// lastMinute returns the duration of the last minute of a series in seconds. Its last second has
// not ended.
func (o *overview) lastMinute() float64 { return minute - 1 + float64(o.now.Nanosecond())/1e9 }

func (o *overview) rates() rates {
	accepted, refused := sum(&o.accepted, minute), sum(&o.refused, minute)
	r := rates{
		Decisions: plot.Number(float64(accepted+refused) / o.lastMinute()), Refused: plot.Number(float64(refused) / o.lastMinute()), Share: "0 %",
		All: strconv.FormatUint(sum(&o.refused, slots), 10),
	}
	if refused > 0 {
		r.Share = strconv.FormatFloat(100*float64(refused)/float64(accepted+refused), 'f', 1, 64) + " %"
	}
	return r
}

// refused returns the row of a bucket with refusals.
func (h *Handler) refused(t *tally, o *overview) refusedRow {
	now := o.now
	row := refusedRow{name: h.name(t.key), All: strconv.FormatUint(uint64(t.all), 10), Now: t.recent > 0, Course: t.spark()}
	since := time.Unix(t.since, 0)
	switch {
	case !row.Now:
		row.Rate, row.Since = "0", "last at "+time.Unix(t.latest, 0).UTC().Format(time.TimeOnly)
	case t.before:
		row.Since = "for ten minutes or longer"
	default:
		row.Since = fmt.Sprintf("since %s, for %s", since.UTC().Format(time.TimeOnly), ago(now.Sub(since)))
	}
	if row.Now {
		row.Rate = plot.Number(t.rate(o))
	}
	if b, found := o.blocks[t.key]; found {
		row.Blocked = "blocked until " + utc(b.until, now)
	}
	return row
}

// rate returns the refusals a second in the last minute.
func (t *tally) rate(o *overview) float64 {
	return float64(t.recent) / min(o.lastMinute(), max(1, o.now.Sub(time.Unix(t.since, 0)).Seconds()))
}

// spark draws the refusals of the window as bars.
func (t *tally) spark() template.HTML {
	const height = 16
	most := slices.Max(t.course[:])
	var path strings.Builder
	for i, n := range t.course {
		if n > 0 {
			up := max(1, height*float64(n)/float64(most))
			fmt.Fprintf(&path, "M%d %dv-%.1fh1v%.1fz", i, height, up, up)
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true"><path d="%s"/></svg>`,
		sparks, height, path.String()))
}

// chart draws the decisions of all buckets, in steps of ten seconds.
func (o *overview) chart() template.HTML {
	const step = 10
	begin, x := clockAxis(o.now)
	x.Step = 120
	figure := plot.Figure{Title: "Decisions and refusals a second", Width: 240, Height: 110, X: x, Y: plot.Axis{Label: "a second"}}
	curve := func(name string, color plot.Color, series ...*[slots]uint32) {
		var points []plot.Point
		until := 0.0
		first := int(begin.Unix() - o.now.Unix() + slots - 1) // the place of begin in a series
		for at := first; at+step <= slots; at += step {
			if at < 0 {
				continue
			}
			n := uint32(0)
			for _, s := range series {
				for _, v := range s[at : at+step] {
					n += v
				}
			}
			until = float64(at + step - first)
			points = append(points, plot.Point{X: until - step, Y: float64(n) / step})
		}
		figure.Curves = append(figure.Curves, plot.Curve{Name: name, Color: color, Points: plot.Steps(points, until)})
	}
	curve("decisions", plot.Blue, &o.accepted, &o.refused)
	curve("refused", plot.Orange, &o.refused)
	if sum(&o.failed, slots) > 0 {
		curve("failed", plot.Violet, &o.failed)
	}
	return template.HTML(figure.SVG())
}

// clockAxis returns an axis with the last [Window] and its begin, at a whole minute. Its numbers
// are clock times.
func clockAxis(now time.Time) (begin time.Time, x plot.Axis) {
	begin = now.Add(-Window).Truncate(time.Minute)
	return begin, plot.Axis{Label: "UTC", Max: slots + minute, Step: minute, Text: func(seconds float64) string {
		return begin.Add(time.Duration(seconds) * time.Second).Format("15:04")
	}}
}

// blocked returns the rows of blocked buckets, the longest block first, and how complete they are.
func (h *Handler) blocked(l *listing, f *failure, o *overview) (rows []blockedRow, note string) {
	keys := slices.SortedFunc(maps.Keys(o.blocks), func(a, b string) int {
		return cmp.Or(o.blocks[b].until.Compare(o.blocks[a].until), cmp.Compare(a, b))
	})
	for _, key := range keys[:min(mostBlocked, len(keys))] {
		until := o.blocks[key].until
		rows = append(rows, blockedRow{h.name(key), utc(until, o.now), humanize.Span(wholeSeconds(until.Sub(o.now)))})
	}
	if more := len(keys) - len(rows); more > 0 {
		note = fmt.Sprintf("%d or more further buckets are blocked. ", more)
	}
	switch {
	case l != nil:
		note += fmt.Sprintf("Blocked buckets without calls are those of a listing from %s ago.", ago(h.clock().Sub(l.at)))
	case f.err != nil:
		note += "The listing of all buckets fails, so blocked buckets without calls are missing here."
	default:
		note += "The first listing of all buckets is under way, so blocked buckets without calls are still missing here."
	}
	return rows, note
}
