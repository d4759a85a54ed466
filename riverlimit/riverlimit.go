// Package riverlimit limits the jobs of [River] by brim's buckets, in all processes together. River
// itself bounds how many jobs run at once in a process.
//
//	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
//		Middleware: []rivertype.Middleware{riverlimit.New(limiter, riverlimit.PerKind(brim.Over(100, time.Minute)), nil)},
//		...
//	})
//
// A job that does not fit is snoozed until it does, which frees its worker for other jobs and does
// not count as an attempt. [Options.Wait] has it wait for its turn in the worker instead.
//
// The middleware charges each attempt, before the work. [Complete] charges a job once, in the
// transaction that completes it. Take one of the two for a bucket.
//
// [River]: https://riverqueue.com
package riverlimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/postgres"
)

// Policy tells the bucket of a job and the units that the job costs. A job that costs 0 units is
// not limited. River calls a Policy from several goroutines at once.
type Policy func(job *rivertype.JobRow) (bucket brim.Bucket, cost float64)

// PerKind gives each kind of job a bucket, "river:kind:" and the kind. A job costs one unit.
func PerKind(limit brim.Limit) Policy {
	return func(job *rivertype.JobRow) (brim.Bucket, float64) { return limit.For("river:kind:" + job.Kind), 1 }
}

// PerQueue gives each queue a bucket, "river:queue:" and the queue. A job costs one unit.
func PerQueue(limit brim.Limit) Policy {
	return func(job *rivertype.JobRow) (brim.Bucket, float64) { return limit.For("river:queue:" + job.Queue), 1 }
}

// Options adjust a [Middleware]. The zero value is the default.
type Options struct {
	// Wait is how long a job may wait for its turn in its worker. Jobs of one bucket then have
	// their turns in the order in which they came, across processes; see [brim.Limiter.Wait]. A job
	// whose turn comes later is snoozed. Under a quota of the calendar there are no turns, and a
	// job waits for the next period in no order. A waiting job takes one of the MaxWorkers of its
	// queue, so give jobs that wait a queue of their own. Wait must be shorter than River's
	// JobTimeout, a minute by default, which goes on meanwhile. 0 means that no job waits.
	Wait time.Duration
	// Jitter is the greatest random time that a snooze is longer than the wait, so that jobs that
	// were refused together do not come back together. 0 means a quarter of the wait, and a
	// negative Jitter means none.
	Jitter time.Duration
}

// Middleware is a worker middleware of River. Make it with [New].
type Middleware struct {
	river.MiddlewareDefaults

	limiter *brim.Limiter
	policy  Policy
	o       Options
}

var _ rivertype.WorkerMiddleware = (*Middleware)(nil)

// New returns a middleware that works a job only if the bucket of policy has room for its cost. o
// may be nil. It belongs into [river.Config.Middleware], or into the Middleware method of one
// worker.
//
// A job that can never fit is cancelled, and its error is a [brim.OverLimitError]. A job that fits
// only after somebody has ended a block or released units is snoozed for an hour. If the store
// cannot decide, the job is not worked: the attempt fails with the store's error, and River tries
// it again as after any other error.
func New(limiter *brim.Limiter, policy Policy, o *Options) *Middleware {
	m := &Middleware{limiter: limiter, policy: policy}
	if o != nil {
		m.o = *o
	}
	return m
}

// Work implements [rivertype.WorkerMiddleware].
func (m *Middleware) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	bucket, cost := m.policy(job)
	if cost != 0 {
		if err := m.enter(ctx, bucket, cost); err != nil {
			return err
		}
	}
	return work(ctx)
}

// enter takes the units of a job, or returns the error that tells River the fate of the job.
func (m *Middleware) enter(ctx context.Context, bucket brim.Bucket, cost float64) error {
	var st brim.State
	var err error
	if m.o.Wait > 0 {
		patient, cancel := context.WithTimeout(ctx, m.o.Wait)
		defer cancel()
		st, err = m.limiter.Wait(patient, bucket, cost)
		if over, ok := errors.AsType[*brim.OverLimitError](err); ok {
			st, err = over.State, nil
		} else if late(err) && ctx.Err() == nil {
			st, err = brim.State{RetryAfter: m.o.Wait}, nil
		}
	} else {
		st, err = m.limiter.TryFillup(ctx, bucket, cost)
	}
	switch {
	case err != nil:
		return fmt.Errorf("riverlimit: the limit of the job gave no answer: %w", err)
	case !st.Accepted:
		return refused(st, cost, m.o.Jitter)
	}
	return nil
}

// late reports that the time to wait has passed before the turn of the job was decided. The store
// has not failed.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, brim.ErrUnknownOutcome) && !errors.Is(err, brim.ErrUnavailable)
}

// freed is the snooze of a job that waits for somebody who ends a block or releases units.
const freed = time.Hour

// refused returns the error by which River snoozes a refused job, or cancels one that never fits.
func refused(st brim.State, cost float64, jitter time.Duration) error {
	switch {
	case st.RetryAfter < brim.Never:
	case cost <= st.Capacity && (st.Held > 0 || !st.BlockedUntil.IsZero()):
		st.RetryAfter = freed
	default:
		return river.JobCancel(&brim.OverLimitError{State: st})
	}
	if jitter == 0 {
		jitter = st.RetryAfter / 4
	}
	if jitter > 0 {
		st.RetryAfter += rand.N(jitter)
	}
	return river.JobSnooze(st.RetryAfter)
}

// Complete completes a job in tx and takes its cost from a bucket of buckets, which must be in the
// database of tx. The charge, the completion and the rows that the worker has written in tx commit
// together: a job is charged once, however often it was tried.
//
// If the bucket has no room, the error is the one that the worker returns after it has rolled tx
// back: River then snoozes the job without counting an attempt, or cancels it if it can never fit.
// The bucket's row is locked until tx ends, so call Complete last. Ask [brim.Limiter.AbleToAccept]
// before work that would be done in vain, of a Limiter without [brim.Options.Prefix]: Complete has
// none.
func Complete[T river.JobArgs](
	ctx context.Context, tx pgx.Tx, buckets *postgres.Store, job *river.Job[T], bucket brim.Bucket, cost float64,
) error {
	st, err := brim.New(buckets.With(tx), nil).TryFillup(ctx, bucket, cost)
	switch {
	case err != nil:
		return fmt.Errorf("riverlimit: the limit of the job gave no answer: %w", err)
	case !st.Accepted:
		return refused(st, cost, 0)
	}
	_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	return err
}
