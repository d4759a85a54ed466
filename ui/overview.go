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
	Spending *spendingView // or nil
}

// spendingView are the spends of the last ten minutes.
type spendingView struct {
	rates
	Failed string
	Recent []declinedRow
}

// declinedRow is the last decline of an account by a rule. Link is the address of the account, if
// the page shows it.
type declinedRow struct{ At, Account, Link, Rule, Then string }

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
	o.unseen = !h.recorded
	page := overviewPage{
		frame: h.frame("Overview", "overview"), Health: h.health(v.Context(), o), Recorded: h.recorded, Act: v.access == Act,
	}
	if o.spends.seen {
		page.Spending = h.spending(o)
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

func (o *overview) rates() rates { return o.ratesOf(&o.accepted, &o.refused) }

func (o *overview) ratesOf(yes, no *[slots]uint32) rates {
	accepted, refused := sum(yes, minute), sum(no, minute)
	r := rates{
		Decisions: plot.Number(float64(accepted+refused) / o.lastMinute()), Refused: plot.Number(float64(refused) / o.lastMinute()), Share: "0 %",
		All: strconv.FormatUint(sum(no, slots), 10),
	}
	if refused > 0 {
		r.Share = strconv.FormatFloat(100*float64(refused)/float64(accepted+refused), 'f', 1, 64) + " %"
	}
	return r
}

// spending returns the spends that the Recorder has seen.
func (h *Handler) spending(o *overview) *spendingView {
	y := &spendingView{rates: o.ratesOf(&o.spends.approved, &o.spends.declined), Failed: strconv.FormatUint(sum(&o.spends.failed, slots), 10)}
	for _, d := range slices.Backward(o.spends.recent) {
		reason := newReason(&d.rule, d.at)
		row := declinedRow{At: d.at.UTC().Format(time.TimeOnly), Account: humanize.Key(h.shown(d.rule.Name)), Rule: reason.Rule, Then: reason.Then}
		if d.rule.Frozen != "" {
			row.Rule = "frozen"
		}
		if d.more > 0 {
			row.Rule += fmt.Sprintf(" and %d more", d.more)
		}
		if d.times > 1 {
			row.Rule += fmt.Sprintf(", %d times", d.times)
		}
		if _, f := h.budget(d.rule.Budget); f == nil {
			row.Link = link("account", "budget", d.rule.Budget, "account", d.rule.Name)
		}
		y.Recent = append(y.Recent, row)
	}
	return y
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
	cut, highest := o.cut(step), 0.0
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
			rate := float64(n) / step
			if cut > 0 && rate > cut {
				if rate > highest {
					highest = rate
					figure.Notes = []plot.Note{{At: plot.Point{X: until, Y: cut}, Text: "up to " + plot.Number(rate), Color: color}}
				}
				rate = cut
			}
			points = append(points, plot.Point{X: until - step, Y: rate})
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

// cut returns the rate at which the chart cuts off, so that a burst of some steps, such as that of
// a start, does not flatten all others; 0 cuts nothing.
func (o *overview) cut(step int) float64 {
	var rates []float64
	for at := 0; at+step <= slots; at += step {
		n := 0.0
		for i := at; i < at+step; i++ {
			n += float64(o.accepted[i] + o.refused[i])
		}
		if n > 0 {
			rates = append(rates, n/float64(step))
		}
	}
	const bursts, flat = 3, 4
	if len(rates) <= 3*bursts {
		return 0
	}
	slices.Sort(rates)
	usual := rates[len(rates)-1-bursts]
	if rates[len(rates)-1] < flat*usual {
		return 0
	}
	return flat / 2 * usual
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
