package caller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/store"
)

// Retry bounds the retries of a call that a server refuses.
type Retry struct {
	Most    int           // the number of retries
	Longest time.Duration // the longest time that the server may demand
}

// Wait returns the time until retry n, from 0 on, of a call that a server has asked to come back
// after a time. It returns false if the call should not be made again: n is Most, or the time is
// longer than Longest or ends after the context's deadline.
//
// The wait is that time and a random one, from 0 to a bound that doubles with each retry ("full
// jitter"; Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015). Callers that
// were refused together, or that rounding sends back to the same whole second, then come back
// apart. The bound begins at a second, because Retry-After is rounded to seconds. It is at most
// Longest, and at most half of the time that the deadline leaves.
func (r Retry) Wait(ctx context.Context, n int, after time.Duration) (time.Duration, bool) {
	if n >= r.Most || after > r.Longest || after >= store.Never {
		return 0, false
	}
	spread := min(time.Second<<min(n, 32), r.Longest) // less than Never, so that the sum cannot overflow
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if after >= left {
			return 0, false
		}
		spread = min(spread, (left-after)/2)
	}
	return after + rand.N(spread+1), true
}
