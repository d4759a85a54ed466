package observe

import (
	"context"
	"errors"

	"github.com/brimgo/brim/store"
)

// Label returns a word for the label of a metric: "accepted"; "shadowed", if
// Shadowed is set; "refused", if the units would have fitted later; "never", if no wait helps, as
// for more units than the bucket's capacity; "blocked", if the bucket is blocked, also by the
// penalty of this refusal; or "spilled", if a Fillup did not fit whole: State.Spilled units of it
// stayed outside.
func (d Decision) Label() string {
	switch {
	case d.Shadowed:
		return "shadowed"
	case d.State.Spilled > 0: // in a transaction that went in, Accepted is set
		return "spilled"
	case d.Accepted:
		return "accepted"
	case d.State.BlockedUntil.After(d.State.At):
		return "blocked"
	case d.State.RetryAfter >= store.Never:
		return "never"
	}
	return "refused"
}

// Under reports whether the operation was decided by that limit. A quota of the calendar is known
// by its capacity and by the period.
func (d Decision) Under(l store.Limit) bool {
	if !l.Calendar() {
		return d.Limit == l
	}
	begins, ends := l.PeriodAt(d.Begins)
	return l.Capacity == d.Limit.Capacity && begins.Equal(d.Begins) && ends.UnixMicro() == int64(-d.Limit.LeakRate)
}

// Label returns a word for the label of a metric: "ok", also if the store refused, or if it
// answered with a [*store.PeriodError], after which the Limiter asks again; "unknown", if the call
// may have been applied (see [store.ErrUnknownOutcome]); "canceled", if the caller left, or "late",
// if the caller's deadline passed, and nothing was applied; or "failed".
func (o Outcome) Label() string {
	_, other := errors.AsType[*store.PeriodError](o.Err)
	switch {
	case o.Err == nil, other:
		return "ok"
	case errors.Is(o.Err, store.ErrUnknownOutcome): // first: it may wrap an error of the context
		return "unknown"
	case errors.Is(o.Err, context.Canceled):
		return "canceled"
	case errors.Is(o.Err, context.DeadlineExceeded):
		return "late"
	}
	return "failed"
}
