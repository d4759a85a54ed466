package frameworks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
)

// JobLimit is a middleware of River that works jobs no faster than their buckets allow, in all
// processes together. River itself bounds the jobs that run at once in each process.
//
// A job that does not fit is snoozed until it does, which frees its worker for other jobs and does
// not count as an attempt. Its units go in when it is worked: an attempt that fails has used them.
type JobLimit struct {
	river.MiddlewareDefaults

	Limiter *brim.Limiter
	Limit   brim.Limit
	Key     func(job *rivertype.JobRow) string // of the job's bucket, for instance its kind, or a tenant in its tags
	Jitter  time.Duration                      // greatest random time that is added to a snooze; above 0
}

// Work implements [rivertype.WorkerMiddleware].
func (l *JobLimit) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	st, err := l.Limiter.TryFillup(ctx, l.Limit.For(l.Key(job)), 1)
	switch {
	case err != nil: // the store failed: River tries the job again, as after an error of its own
		return fmt.Errorf("the limit of the job could not be checked: %w", err)
	case st.RetryAfter >= brim.Never:
		return river.JobCancel(&brim.OverLimitError{State: st})
	case !st.Accepted:
		return river.JobSnooze(st.RetryAfter + rand.N(l.Jitter))
	}
	return work(ctx)
}
