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

// Limit returns the limit by which the operation was decided.
func (d Decision) Limit() store.Limit {
	return store.Limit{Capacity: d.State.Capacity, LeakRate: d.State.LeakRate}
}

// Label returns a word for the label of a metric: "ok", also if the store refused; "unknown", if
// the call may have been applied (see [store.ErrUnknownOutcome]); "canceled", if the caller
// left, or "late", if the caller's deadline passed, and nothing was applied; or "failed".
func (o Outcome) Label() string {
	switch {
	case o.Err == nil:
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
