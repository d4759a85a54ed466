package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/brimgo/brim/internal/cached"
	"github.com/brimgo/brim/internal/humanize"
)

// pageRows is the number of buckets on a page.
const pageRows = 50

// levelsPage is the page with the levels of all buckets.
type levelsPage struct {
	frame
	Prefix        string
	Listing       *listing // or nil
	Age           string
	Notes         []string
	Caption       string
	Rows          []rowView
	Before, After string
}

type rowView struct {
	figures
	name
}

func newRow(r *row) rowView {
	return rowView{figures: newFigures(r.state()), name: name{humanize.Key(r.form), r.form}}
}

// levels shows the levels of all buckets, the fullest first.
func (h *Handler) levels(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	skip, err := strconv.ParseUint(cmp.Or(query.Get("from"), "0"), 10, 30)
	if err != nil {
		h.failed(w, v, &failure{http.StatusBadRequest, "No such page", "In the address, the number of rows to skip is not a number.", nil})
		return
	}
	prefix := query.Get("prefix")
	page := levelsPage{frame: h.frame("Levels", "levels"), Caption: "Fullest first"}
	if humanize.Key(prefix) == prefix { // a browser changes other characters in a field
		page.Prefix = prefix
	}
	if prefix != "" {
		page.Caption += ", with keys that begin with " + humanize.Key(prefix)
	}
	status := http.StatusOK
	if page.Listing, page.Problem = h.latest(v.Context(), patience); page.Listing == nil {
		status = page.Problem.status
	} else {
		h.fill(&page, prefix, int(skip))
	}
	h.render(w, status, "levels", page)
}

// fill fills the page with the rows of its listing behind the first skip.
func (h *Handler) fill(page *levelsPage, prefix string, skip int) {
	l, now := page.Listing, h.clock()
	page.Age = fmt.Sprintf("The numbers are %s old: listed at %s in %s, and next in %s at the earliest, when somebody looks.",
		ago(now.Sub(l.at)), utc(l.at, now), humanize.Span(max(l.took, time.Millisecond)),
		humanize.Span(max(0, l.at.Add(l.took*(cached.Pause+1)).Sub(now)).Round(time.Millisecond)))
	if h.form != nil {
		page.Notes = append(page.Notes, "Keys are shown in a form that does not reveal them.")
	}
	if l.damaged {
		page.Notes = append(page.Notes, "Damaged buckets are missing here: see the commands doctor and verify.")
	}
	if len(l.rows) < l.Buckets {
		page.Notes = append(page.Notes, fmt.Sprintf("Listed are the fullest %d. Open another one by its whole key.", len(l.rows)))
	}
	at := 0
	for r := range l.under(prefix) {
		if at == skip+pageRows {
			page.After = link("levels", "prefix", prefix, "from", strconv.Itoa(at))
			break
		}
		if at >= skip {
			page.Rows = append(page.Rows, newRow(r))
		}
		at++
	}
	if skip > 0 {
		page.Before = link("levels", "prefix", prefix, "from", strconv.Itoa(max(0, skip-pageRows)))
	}
}
