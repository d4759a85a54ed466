package brim

import (
	"time"

	"github.com/brimgo/brim/store"
)

// UntilEmpty is the penalty that lasts until the bucket has leaked empty, if nothing more goes in. Where the bucket does not
// leak that is never: only [Limiter.Reset] lifts it.
const UntilEmpty = store.UntilEmpty

// WithPenalty returns a Limiter over the same store that blocks a bucket after an overflow: when a TryFillup, Fillup, Hold or
// TryFillupAll does not fit, nothing fits into the bucket that refused for d, by the store's clock, or [UntilEmpty]. A d of 0
// gives no penalty; a negative one other than UntilEmpty makes those calls answer [ErrInvalidLimit].
//
// The block is kept with the bucket, so all processes see it and it survives what the bucket survives. A later overflow
// prolongs it and never shortens it: whoever keeps trying stays out. State.BlockedUntil tells its end, RetryAfter counts it in,
// and [Limiter.Reset] lifts it. A Limiter without a penalty sets none, but honours what it finds.
//
// A refusal that blocks is written, so it costs what an accepted call costs.
func (l *Limiter) WithPenalty(d time.Duration) *Limiter {
	with := *l
	with.penalty = d
	return &with
}
