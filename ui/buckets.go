package ui

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/paced"
	"github.com/brimgo/brim/internal/show"
)

// pageRows is the number of buckets on a page.
const pageRows = 50

// The orders of the buckets.
const (
	byShare   = "full"
	byRefused = "refused"
	byKey     = "key"
)

type option struct {
	Value, Text string
	Chosen      bool
}

// bucketsPage is the page of all buckets.
type bucketsPage struct {
	frame
	Prefix  string
	Orders  []option
	Listing *listingView
}

// listingView is one page of a listing.
type listingView struct {
	Age                             string
	Buckets, Full, Blocked, Refused string
	Recorded                        bool
	Notes                           []string
	Caption, Empty                  string
	Rows                            []rowView
	Before, After                   string
}

type rowView struct {
	figures
	Key, Form, Refused, Accepted string
}

// buckets shows the buckets.
func (h *Handler) buckets(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	skip, err := positive(query.Get("from"))
	if err != nil {
		h.failed(w, v, &failure{status: http.StatusBadRequest, title: "No such page", detail: "In the address, " + err.Error() + "."})
		return
	}
	prefix := query.Get("prefix")
	page := bucketsPage{frame: frame{Program: h.title, Heading: "Buckets"}}
	if show.Key(prefix) == prefix { // a browser changes other characters in a field
		page.Prefix = prefix
	}
	by := query.Get("by")
	orders := []option{{Value: byShare, Text: "fullest first"}, {Value: byKey, Text: "by key"}}
	if h.recorder != nil {
		orders = append(orders, option{Value: byRefused, Text: "most refused first"})
	}
	page.Orders = orders
	chosen := 0
	for i := range orders {
		if orders[i].Value == by {
			chosen = i
		}
	}
	orders[chosen].Chosen = true
	status := http.StatusOK
	l, problem := h.latest(v.Context())
	if problem != nil {
		page.Problem = problem
		if l == nil {
			status = problem.status
		}
	}
	if l != nil {
		page.Listing = h.view(l, prefix, orders[chosen], skip)
	}
	h.render(w, status, "buckets", page)
}

// view returns one page of a listing.
func (h *Handler) view(l *listing, prefix string, order option, skip int) *listingView {
	view := &listingView{
		Age: h.age(l), Buckets: strconv.FormatInt(l.buckets, 10), Full: strconv.FormatInt(l.full, 10),
		Blocked: strconv.FormatInt(l.blocked, 10), Recorded: h.recorder != nil,
		Caption: strings.ToUpper(order.Text[:1]) + order.Text[1:], Empty: "There are no buckets.",
	}
	if prefix != "" {
		view.Caption += ", with keys that begin with " + show.Key(prefix)
		view.Empty = "No listed bucket has a key that begins with this text."
	}
	if h.form != nil {
		view.Notes = append(view.Notes, "Keys are shown in a form that does not reveal them.")
	}
	if l.damaged {
		view.Notes = append(view.Notes, "Damaged buckets are missing here: see the commands doctor and verify.")
	}
	if int64(len(l.rows)) < l.buckets {
		view.Notes = append(view.Notes, fmt.Sprintf("Listed are the fullest %d. Open another one by its whole key.", len(l.rows)))
	}
	var refused uint64
	for _, t := range l.tallies {
		refused += t.refused
	}
	view.Refused = strconv.FormatUint(refused, 10)
	var more bool
	switch order.Value {
	case byRefused:
		tallies := h.tallied(l, prefix, skip+pageRows+1)
		more = len(tallies) > skip+pageRows
		for _, t := range part(tallies, skip, pageRows) {
			view.Rows = append(view.Rows, h.tallyRow(l, t))
		}
		if view.Empty = "No bucket had a call in the last ten minutes."; prefix != "" {
			view.Empty = "No bucket with such a key had a call in the last ten minutes."
		}
	default:
		rows := part(l.under(prefix), skip, pageRows+1)
		if order.Value == byShare {
			rows = l.fullest(prefix, skip, pageRows+1)
		}
		more = len(rows) > pageRows
		for _, i := range part(rows, 0, pageRows) {
			view.Rows = append(view.Rows, h.row(l, i))
		}
	}
	if skip > 0 {
		from := ""
		if skip > pageRows {
			from = strconv.Itoa(skip - pageRows)
		}
		view.Before = link("./", "prefix", prefix, "by", order.Value, "from", from)
	}
	if more {
		view.After = link("./", "prefix", prefix, "by", order.Value, "from", strconv.Itoa(skip+pageRows))
	}
	return view
}

// tallied returns up to n tallies of buckets whose forms start with prefix.
func (h *Handler) tallied(l *listing, prefix string, n int) []tally {
	var found []tally
	for _, t := range l.tallies {
		if len(found) < n && strings.HasPrefix(h.shown(t.key), prefix) {
			found = append(found, t)
		}
	}
	return found
}

// tallyRow returns the row of a bucket that the Recorder keeps. Its figures are missing if the
// listing does not have it.
func (h *Handler) tallyRow(l *listing, t tally) rowView {
	form := h.shown(t.key)
	if i, found := l.find(form); found {
		return h.row(l, i)
	}
	return rowView{
		Key: show.Key(form), Form: form, figures: figures{Share: "0"},
		Refused: strconv.FormatUint(t.refused, 10), Accepted: strconv.FormatUint(t.accepted, 10),
	}
}

// row returns the row of a listed bucket.
func (h *Handler) row(l *listing, i uint32) rowView {
	form := string(l.form(i))
	r := rowView{figures: newFigures(l.rows[i].state()), Key: show.Key(form), Form: form}
	if at, found := l.places[l.key(i)]; found {
		t := l.tallies[at]
		r.Refused, r.Accepted = strconv.FormatUint(t.refused, 10), strconv.FormatUint(t.accepted, 10)
	}
	return r
}

// age tells how old a listing is, and when the next one may begin.
func (h *Handler) age(l *listing) string {
	now := h.clock()
	return fmt.Sprintf("The numbers are %s old: listed at %s, in %s. The next listing begins %s after that one, when somebody looks.",
		show.Span(max(0, now.Sub(l.at)).Truncate(time.Second)), utc(l.at, now), show.Span(l.took.Round(100*time.Microsecond)),
		show.Span((l.took * paced.Pause).Round(time.Millisecond)))
}
