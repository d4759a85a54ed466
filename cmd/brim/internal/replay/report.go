package replay

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/store"
)

// Report is what became of a trace.
type Report struct {
	Requests           int64     `json:"requests"` // decided: accepted or refused
	Accepted           int64     `json:"accepted"`
	Refused            int64     `json:"refused"`
	UnitsAccepted      float64   `json:"units_accepted"`
	Keys               int       `json:"keys"`
	Unparsed           int64     `json:"unparsed"` // lines that are no requests
	Seconds            float64   `json:"seconds"`  // of wall time, commits included
	DecisionsPerSecond float64   `json:"decisions_per_second"`
	TopRefused         []Refused `json:"top_refused"` // the most refused first; never nil

	// Bad names the first of the lines that are no requests.
	Bad []*trace.LineError `json:"-"`
}

// Refused is a key of which requests were refused.
type Refused struct {
	Key      string `json:"key"`
	Accepted int64  `json:"accepted"`
	Refused  int64  `json:"refused"`
}

func (r *Report) unparsed(bad []*trace.LineError) {
	r.Unparsed += int64(len(bad))
	slices.SortFunc(bad, func(a, b *trace.LineError) int { return cmp.Compare(a.Line, b.Line) })
	r.Bad = append(r.Bad, bad[:min(len(bad), named-len(r.Bad))]...)
}

func (r *run) finish(took time.Duration) {
	rep := &r.report
	rep.Keys = len(r.tallies)
	rep.Seconds = took.Seconds()
	if took > 0 {
		rep.DecisionsPerSecond = float64(rep.Requests) / took.Seconds()
	}
	rep.TopRefused = []Refused{}
	for key, t := range r.tallies {
		if t.refused > 0 {
			rep.TopRefused = append(rep.TopRefused, Refused{Key: key, Accepted: t.accepted, Refused: t.refused})
		}
	}
	slices.SortFunc(rep.TopRefused, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	rep.TopRefused = rep.TopRefused[:min(len(rep.TopRefused), r.Top)]
}

// reason says in a few words why a request is one that no bucket takes.
func reason(err error) string {
	switch {
	case errors.Is(err, store.ErrInvalidKey):
		return "its key is empty, not UTF-8, holds NUL or is too long"
	case errors.Is(err, store.ErrInvalidAmount):
		return "its cost is lost in the rounding of the capacity; count in larger units"
	}
	return err.Error()
}
