package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/store"
)

// FallbackOptions adjust [Fallback]. The zero value selects the defaults.
type FallbackOptions struct {
	// Share is the share of each limit that the standby store admits, above 0 and up to 1; 0 means a
	// quarter. If N processes share the buckets, 1/N keeps all of them together to the limit.
	Share float64
	// Patience is the time after which a call to the store is overdue, and cut short; 0 means 100 ms.
	Patience time.Duration
	// Retry is the time from one attempt to reach the store again to the next; 0 means a second.
	Retry time.Duration
	// Switched is told of each change, with the error that began the outage, or with nil at its end.
	// It runs on the goroutine of a caller, so it must not block. nil means that nobody is told.
	Switched func(err error)
}

// Fallback returns a store over s that lets standby, usually a store in memory, decide while s fails;
// o may be nil. If a store is nil, the error is [store.ErrClosed]. It also fails if an option is out
// of range. Close closes both stores.
//
// Fallback serves the calls of TryFillup, TryFillupAll, Fillup and AbleToAccept. Their first error
// that is [store.ErrUnavailable] or [store.ErrUnknownOutcome], or the first call that takes longer
// than Patience, begins an outage: from then on the standby store answers at once, by Share of each
// limit, and each State has Estimate set. A call that may have gone in, and all other calls, get the
// error of s.
//
// A row that another transaction holds for longer than Patience fails the call, and so begins an
// outage, too: in PostgreSQL, choose a Patience above the longest transaction that fills buckets.
//
// During an outage, one question at a time asks whether s answers again, at most one in Retry. After
// an answer, one call is tried on s, and its success ends the outage.
//
// In k outages that last a time d each, N processes admit at most N * k * Share * (c + r * d) units
// for a bucket of capacity c and rate r, in addition to the bound of s.
func Fallback(s, standby store.Store, o *FallbackOptions) (store.Store, error) {
	if o == nil {
		o = &FallbackOptions{}
	}
	f := &fallback{
		standby: standby, share: cmp.Or(o.Share, 0.25), switched: o.Switched,
		patience: cmp.Or(o.Patience, 100*time.Millisecond), retry: cmp.Or(o.Retry, time.Second),
	}
	var err error
	switch {
	case !(f.share > 0 && f.share <= 1):
		err = fmt.Errorf("Share is %v; it must be above 0 and at most 1, or 0 for a quarter", o.Share)
	case f.patience < 0:
		err = fmt.Errorf("Patience is %v; it must be positive, or 0 for 100 ms", o.Patience)
	case f.retry < 0:
		err = fmt.Errorf("Retry is %v; it must be positive, or 0 for a second", o.Retry)
	}
	if standby == nil {
		err = fmt.Errorf("%w: the standby store is nil", store.ErrClosed)
	}
	if err := f.open("fallback", s, 0, nil, err); err != nil {
		return nil, err
	}
	if f.switched == nil {
		f.switched = func(error) {}
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// fallback is the store of [Fallback].
type fallback struct {
	wrapper
	standby         store.Store
	share           float64
	patience, retry time.Duration
	switched        func(error)

	state atomic.Int32
	asked atomic.Int64 // time of the last question to a store that is down, after wrapper.start; 0 before the first

	ctx       context.Context // of questions
	stop      context.CancelFunc
	questions sync.WaitGroup
}

// The states of the wrapped store.
const (
	up       int32 = iota
	down           // it is asked whether it answers again
	answered       // it has answered a question: the next call tries it
	tried          // a call is trying it
)

// Fill lets the standby store decide op during an outage.
func (f *fallback) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err := f.check(ctx, "fill"); err != nil {
		return st, err
	}
	if !servable(&op) {
		return f.Store.Fill(ctx, op)
	}
	err = f.decide(ctx, op.Bucket,
		func(ctx context.Context) error { st, err = f.Store.Fill(ctx, op); return err },
		func() error {
			st, err = f.standby.Fill(ctx, f.scaled(op))
			f.mark(&st, &op)
			return err
		})
	return st, err
}

// Apply lets the standby store decide txns during an outage.
func (f *fallback) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	if err := f.check(ctx, "apply"); err != nil {
		return nil, err
	}
	for _, txn := range txns {
		for i := range txn {
			if !servable(&txn[i]) {
				return f.Store.Apply(ctx, txns...)
			}
		}
	}
	if len(txns) == 0 || len(txns[0]) == 0 {
		return f.Store.Apply(ctx, txns...)
	}
	err = f.decide(ctx, txns[0][0].Bucket,
		func(ctx context.Context) error { results, err = f.Store.Apply(ctx, txns...); return err },
		func() error { results, err = f.applyStandby(ctx, txns); return err })
	return results, err
}

func (f *fallback) applyStandby(ctx context.Context, txns []store.Txn) ([]store.Result, error) {
	scaled := make([]store.Txn, len(txns))
	for i, txn := range txns {
		scaled[i] = make(store.Txn, len(txn))
		for j := range txn {
			scaled[i][j] = f.scaled(txn[j])
		}
	}
	results, err := f.standby.Apply(ctx, scaled...)
	for i := range results {
		for j := range results[i].States {
			f.mark(&results[i].States[j], &txns[i][j])
		}
	}
	return results, err
}

// servable reports whether the standby store may decide op: a TryFillup, a Fillup or an AbleToAccept.
// A hold would be unknown to the store afterwards, and turns of a queue have an order there.
func servable(op *store.Op) bool {
	return (op.Mode == store.IfFits || op.Mode == store.Clamp || op.Mode == store.Ask) &&
		op.Amount >= 0 && op.Hold == 0 && !op.Turn && op.CeilingAt.IsZero() && op.Limit != (store.Limit{})
}

// scaled returns op with the share of its limit.
func (f *fallback) scaled(op store.Op) store.Op {
	op.Capacity *= f.share
	if op.LeakRate > 0 {
		op.LeakRate = max(store.MinLeakRate, op.LeakRate*f.share)
	}
	op.Ceiling *= f.share
	return op
}

// mark says in an answer of the standby store that it is one. An amount above the share may fit when
// the outage is over.
func (f *fallback) mark(st *store.State, op *store.Op) {
	st.Estimate = true
	if st.RetryAfter >= store.Never && op.Amount <= op.Capacity {
		st.RetryAfter = f.retry
	}
}

// decide calls try on the wrapped store, or standby during an outage.
func (f *fallback) decide(ctx context.Context, b store.Bucket, try func(context.Context) error, standby func() error) error {
	if s := f.state.Load(); s != up && !(s == answered && f.state.CompareAndSwap(answered, tried)) {
		f.ask(b)
		return standby()
	}
	within, cancel := context.WithTimeout(ctx, f.patience)
	err := try(within)
	cancel()
	if caller.Left(ctx) != nil || !outage(err) {
		// A caller who has left tells nothing about the store. The next call tries it.
		next := up
		if caller.Left(ctx) != nil && err != nil {
			next = answered
		}
		if f.state.CompareAndSwap(tried, next) && next == up {
			f.switched(nil)
		}
		return err
	}
	if f.state.CompareAndSwap(up, down) {
		f.switched(err)
	} else {
		f.state.CompareAndSwap(tried, down)
	}
	if errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	return standby()
}

// outage reports whether err, with which a call has ended whose caller still waits, is a failure of
// the store.
func outage(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded)
}

// ask asks the store about b, on a goroutine of its own, unless it was asked less than Retry ago.
func (f *fallback) ask(b store.Bucket) {
	now, last := int64(time.Since(f.start))+1, f.asked.Load()
	if f.state.Load() != down || last != 0 && now-last < int64(f.retry) || !f.asked.CompareAndSwap(last, now) {
		return
	}
	f.questions.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, f.patience)
		defer cancel()
		if _, err := f.Store.Fill(ctx, store.Op{Bucket: b, Mode: store.Ask}); !outage(err) && f.ctx.Err() == nil {
			f.state.CompareAndSwap(down, answered)
		}
	})
}

// Close ends the questions and closes both stores.
func (f *fallback) Close() error {
	f.closed.Store(true)
	f.stop()
	f.questions.Wait()
	return errors.Join(f.Store.Close(), f.standby.Close())
}
