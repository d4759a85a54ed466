package simulate

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// named is the number of bad lines that a report names.
const named = 3

// Report is the result of a run.
type Report struct {
	Requests int64 // arrivals that the limits decided
	Keys     int
	Unparsed int64         // lines that are not requests
	Bad      []*LineError  // the first of these lines
	Disorder Disorder      // of the source
	Took     time.Duration // wall time, with the commits
	Complete bool          // the source was decided to its end
	Outcomes []Outcome     // in the order of Options.Limits
}

// Outcome is the result of one limit.
type Outcome struct {
	Limit         Limit
	Accepted      int64
	Refused       int64
	UnitsAccepted float64
	Numbers       int       // the most values, such as a count or a time, that the algorithm kept for one key
	KeysRefused   int       // keys with a refused request
	TopRefused    []Refused // the most refused first; never nil
}

// Refused is a key with refused requests.
type Refused struct {
	Key      string `json:"key"`
	Accepted int64  `json:"accepted"`
	Refused  int64  `json:"refused"`
}

// Share returns the share of the requests that were refused, from 0 to 1; 0 without requests.
func (o *Outcome) Share() float64 {
	if o.Refused == 0 {
		return 0
	}
	return float64(o.Refused) / float64(o.Accepted+o.Refused)
}

// unparsed counts lines that are not requests.
func (r *Report) unparsed(bad []*LineError) {
	r.Unparsed += int64(len(bad))
	slices.SortFunc(bad, func(a, b *LineError) int { return cmp.Compare(a.Line, b.Line) })
	r.Bad = append(r.Bad, bad[:min(len(bad), named-len(r.Bad))]...)
}

// finish completes the report. took is the wall time of the run.
func (r *run) finish(took time.Duration, complete bool) {
	r.report.Keys, r.report.Took, r.report.Complete = len(r.clients), took, complete
	for i := range r.report.Outcomes {
		r.rank(&r.report.Outcomes[i], r.refused[i])
	}
}

// rank finds the most refused keys of a limit.
func (r *run) rank(o *Outcome, refused []int64) {
	o.TopRefused = []Refused{}
	var clients []int
	for n, times := range refused {
		if times > 0 {
			clients = append(clients, n)
		}
	}
	o.KeysRefused = len(clients)
	if r.Top == 0 {
		return
	}
	slices.SortFunc(clients, func(a, b int) int {
		return cmp.Or(cmp.Compare(refused[b], refused[a]), cmp.Compare(r.clients[a].key, r.clients[b].key))
	})
	for _, n := range clients[:min(len(clients), r.Top)] {
		c := &r.clients[n]
		o.TopRefused = append(o.TopRefused,
			Refused{Key: c.key, Accepted: c.requests - refused[n], Refused: refused[n]})
	}
}

// reason describes why a bucket cannot decide a request.
func reason(err error) string {
	switch {
	case errors.Is(err, store.ErrInvalidKey):
		return "its key is empty, not UTF-8, contains NUL or is too long"
	case errors.Is(err, store.ErrInvalidAmount):
		return "its cost is lost in the rounding of the capacity; count in larger units"
	}
	return err.Error()
}
