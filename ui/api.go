package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

// problem answers a program with an error.
func problem(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.status)
	p := uiapi.Problem{Title: f.title, Status: f.status, Detail: f.detail, Kind: uiapi.KindOf(f.err)}
	_ = json.NewEncoder(w).Encode(p) // nobody is left to hear of an error
}

// answer answers a program with a value.
func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // nobody is left to hear of an error
}

// apiList writes the listing, the fullest bucket first.
func (h *Handler) apiList(w http.ResponseWriter, v *visit) {
	l, f := h.latest(v.Context(), patience)
	if f != nil { // an old listing would pass for the present state
		problem(w, f)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	err := lines.Encode(uiapi.Listing{
		At: l.at.UTC(), Age: max(0, h.clock().Sub(l.at).Seconds()), Took: l.took.Seconds(),
		Buckets: int64(l.Buckets), Listed: int64(len(l.rows)), Damaged: l.damaged,
	})
	for r := range l.under(v.URL.Query().Get("prefix")) {
		if err != nil {
			return // nobody is left to hear of it
		}
		err = lines.Encode(uiapi.NewEntry(r.form, r.state()))
	}
}

// apiRefused writes the buckets with refusals, live from the Recorder.
func (h *Handler) apiRefused(w http.ResponseWriter, v *visit) {
	if !h.recorded {
		problem(w, &failure{
			status: http.StatusNotImplemented, title: "Not here", err: errors.ErrUnsupported,
			detail: "the page sees no decisions of the program: its ui.Options have no Recorder",
		})
		return
	}
	o := h.recorder.overview()
	list := []uiapi.Refused{}
	for i := range o.keys {
		t := &o.keys[i]
		form := h.shown(t.key)
		if !strings.HasPrefix(form, v.URL.Query().Get("prefix")) {
			continue
		}
		r := uiapi.Refused{
			Key: form, Rate: t.rate(o), Refused: uint64(t.all), Last: time.Unix(t.latest, 0).UTC(), BlockedUntil: o.blocks[t.key].until,
		}
		if !t.before {
			r.Since = time.Unix(t.since, 0).UTC()
		}
		list = append(list, r)
	}
	answer(w, list)
}

// apiState writes the state of a bucket.
func (h *Handler) apiState(w http.ResponseWriter, v *visit) {
	query := v.URL.Query()
	var limit store.Limit
	if query.Has("capacity") || query.Has("leak_rate") {
		var errs [2]error
		limit.Capacity, errs[0] = strconv.ParseFloat(query.Get("capacity"), 64)
		limit.LeakRate, errs[1] = strconv.ParseFloat(query.Get("leak_rate"), 64)
		if err := errors.Join(errs[0], errs[1], limit.Validate()); err != nil {
			problem(w, failureOf(errors.Join(store.ErrInvalidLimit, err)))
			return
		}
	}
	form := query.Get("key")
	key, f := h.keyOf(v.Context(), form)
	var st store.State
	if f == nil {
		st, f = h.stateOf(v.Context(), key, limit)
	}
	if f != nil {
		problem(w, f)
		return
	}
	answer(w, uiapi.NewEntry(form, st))
}

// apiFindings writes the findings of the last try.
func (h *Handler) apiFindings(w http.ResponseWriter, v *visit) {
	if h.check == nil {
		problem(w, &failure{
			status: http.StatusNotImplemented, title: "Not here", err: errors.ErrUnsupported,
			detail: "the program does not check its store for others: its ui.Options have no Check",
		})
		return
	}
	last, err := h.tries.Next(v.Context())
	if err = cmp.Or(err, last.Err); err != nil {
		problem(w, failureOf(err))
		return
	}
	findings := last.Value.findings
	if findings == nil {
		findings = []store.Finding{}
	}
	answer(w, findings)
}

// apiToken writes a token for one change of one bucket.
func (h *Handler) apiToken(w http.ResponseWriter, v *visit) {
	if v.access != Act {
		problem(w, onlyLook)
		return
	}
	query := v.URL.Query()
	answer(w, uiapi.Token{Token: h.tokens.make(toProgram, v.who, query.Get("act"), query.Get("key"))})
}

// apiChange makes a change, by the rules of the form.
func (h *Handler) apiChange(w http.ResponseWriter, v *visit) {
	var c uiapi.Change
	var st store.State
	var f *failure
	if err := json.NewDecoder(http.MaxBytesReader(w, v.Body, maxForm)).Decode(&c); err != nil {
		f = &failure{status: http.StatusBadRequest, title: "Not a change", detail: "the post cannot be read as a change"}
	} else if !h.tokens.spend(v.Header.Get(uiapi.TokenField), toProgram, v.who, c.Act, c.Key) {
		f = stale
	} else if err := c.Validate(); err != nil {
		f = failureOf(err)
	} else {
		st, f = h.make(v, c)
	}
	if f != nil {
		problem(w, f)
		return
	}
	answer(w, uiapi.NewEntry(c.Key, st))
}
