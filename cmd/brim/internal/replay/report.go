package replay

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/store"
)

// Report is the result of a replay.
type Report struct {
	Requests           int64     `json:"requests"` // accepted or refused
	Accepted           int64     `json:"accepted"`
	Refused            int64     `json:"refused"`
	UnitsAccepted      float64   `json:"units_accepted"`
	Keys               int       `json:"keys"`
	Unparsed           int64     `json:"unparsed"` // lines that are not requests
	Seconds            float64   `json:"seconds"`  // wall time, with the commits
	DecisionsPerSecond float64   `json:"decisions_per_second"`
	TopRefused         []Refused `json:"top_refused"` // the most refused first; never nil

	// Bad are the first lines that are not requests.
	Bad []*trace.LineError `json:"-"`
}

// Refused is a key with refused requests.
type Refused struct {
	Key      string `json:"key"`
	Accepted int64  `json:"accepted"`
	Refused  int64  `json:"refused"`
}

// unparsed counts lines that are not requests.
func (r *Report) unparsed(bad []*trace.LineError) {
	r.Unparsed += int64(len(bad))
	slices.SortFunc(bad, func(a, b *trace.LineError) int { return cmp.Compare(a.Line, b.Line) })
	r.Bad = append(r.Bad, bad[:min(len(bad), named-len(r.Bad))]...)
}

// finish completes the report. took is the wall time of the replay.
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

// reason describes why a store rejects a request as invalid.
func reason(err error) string {
	switch {
	case errors.Is(err, store.ErrInvalidKey):
		return "its key is empty, not UTF-8, contains NUL or is too long"
	case errors.Is(err, store.ErrInvalidAmount):
		return "its cost is lost in the rounding of the capacity; count in larger units"
	}
	return err.Error()
}
