package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/store"
)

// bucketPage is the page of one bucket.
type bucketPage struct {
	frame
	Form     string
	Done     string
	State    *stateView
	Recorded bool
	Summary  string
	Plot     template.HTML
	Changes  []change
}

type stateView struct {
	figures
	Age string
}

// bucket shows one bucket.
func (h *Handler) bucket(w http.ResponseWriter, v *visit) {
	form := v.URL.Query().Get("key")
	key, f := h.keyOf(v.Context(), form)
	if f != nil {
		h.failed(w, v, f)
		return
	}
	page := bucketPage{
		frame: h.frame(humanize.Key(form), ""), Form: form, Recorded: h.recorded,
		Done: changes[v.URL.Query().Get("done")].Done,
	}
	status := http.StatusOK
	st, f := h.stateOf(v.Context(), key, store.Limit{})
	switch {
	case f != nil:
		page.Problem, page.Recorded, status = f, false, f.status
	case st.Capacity == 0 && st.BlockedUntil.IsZero():
		page.Problem = &failure{title: "There is no such bucket", detail: "It is empty, and no limit was used with it, or it was reset."}
	default:
		figures := newFigures(st)
		if figures.Blocked == "" {
			figures.Blocked = "no"
		} else {
			figures.Blocked = fmt.Sprintf("for %s, until %s", figures.Blocked, utc(st.BlockedUntil, st.At))
		}
		page.State = &stateView{figures: figures, Age: "Read at " + utc(st.At, st.At) + " by the clock of the store."}
		if v.access == Act {
			for _, act := range []string{"reset", "block", "unblock", "drain"} {
				page.Changes = append(page.Changes, changes[act])
			}
		}
	}
	if page.Recorded {
		page.Summary, page.Plot = h.course(key, humanize.Key(form), st)
	}
	h.render(w, status, "bucket", page)
}

// course describes and draws the level of a bucket over the last [Window].
func (h *Handler) course(key, shown string, st store.State) (summary string, picture template.HTML) {
	c, kept := h.recorder.course(key, st.At)
	if !kept || len(c.slots) == 0 {
		return "In the last ten minutes this program saw no call for this bucket, or too few to keep it.", ""
	}
	summary = fmt.Sprintf("Since %s this program saw %s for this bucket: %d accepted and %d refused.",
		utc(time.Unix(c.since, 0), st.At), plural(int64(c.accepted+c.refused), "call", "calls"), c.accepted, c.refused)
	begin, x := clockAxis(st.At)
	figure := plot.Figure{
		Title: "Level of " + short(shown), Description: summary, Width: x.Max, Height: 240, X: x, Y: plot.Axis{Label: "units"},
		Curves: []plot.Curve{{Points: c.levels(begin, st.At)}},
	}
	if st.Capacity > 0 {
		figure.Guides = []plot.Guide{{At: st.Capacity, Label: "capacity; a cross is a second with refusals"}}
		if c.refused == 0 {
			figure.Guides[0].Label = "capacity"
		}
	}
	for i := range c.slots {
		if one := &c.slots[i]; one.refused > 0 {
			at := plot.Point{X: one.seconds(one.end, begin), Y: st.Capacity}
			figure.Marks = append(figure.Marks, plot.Mark{At: at, Shape: plot.Cross, Color: plot.Orange})
		}
	}
	return summary, template.HTML(figure.SVG())
}

// short returns at most 40 characters of a key, for the title of a picture.
func short(key string) string {
	if r := []rune(key); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return key
}
