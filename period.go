package brim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// triesOfPeriod is the number of times that the store is asked about a quota of the calendar. The
// first try is in the period that the Limiter takes it to be, the second in that of the store's
// clock. Only a clock that reaches the end of a period between two tries needs another.
const triesOfPeriod = 5

// storeTime returns the time of the store's clock, as far as the Limiter knows it.
func (l *Limiter) storeTime() time.Time {
	if l.ahead == nil { // of a zero Limiter
		return time.Now()
	}
	return time.Now().Add(time.Duration(l.ahead.Load()))
}

// otherPeriod returns the times of the buckets if the store has refused to decide because an
// operation is not in its period.
func (l *Limiter) otherPeriod(err error) (times []time.Time, other bool) {
	found, other := errors.AsType[*store.PeriodError](err)
	if !other {
		return nil, false
	}
	// A bucket can be ahead of the clock, so the least is nearest to the clock.
	l.ahead.Store(int64(time.Until(slices.MinFunc(found.Times, time.Time.Compare))))
	return found.Times, true
}

// fillPeriod is fill for a bucket under a quota of the calendar.
func (l *Limiter) fillPeriod(ctx context.Context, st *State, op *store.Op, least float64) error {
	if err := op.Limit.Validate(); err != nil {
		return err
	}
	at := l.storeTime()
	for try := 1; ; try++ {
		in := *op
		err := in.SetPeriod(at)
		if err == nil {
			*st = State{}
			err = l.fill(ctx, st, &in, least)
		}
		times, other := l.otherPeriod(err)
		if !other || try == triesOfPeriod {
			return err
		}
		at = times[0]
	}
}

// decideFills decides about fills together. It returns the states of the store's operations, and
// which of them is that of each fill.
func (l *Limiter) decideFills(ctx context.Context, fills []Fill) (states []State, index []int, err error) {
	var at []time.Time // of the buckets of fills
	if slices.ContainsFunc(fills, func(f Fill) bool { return f.Bucket.Calendar() }) {
		at = slices.Repeat([]time.Time{l.storeTime()}, len(fills))
	}
	for try := 1; ; try++ {
		txn, index, err := l.merge(fills, at)
		if err != nil {
			return nil, nil, err
		}
		states, err := l.decide(ctx, txn)
		times, other := l.otherPeriod(err)
		switch {
		case err == nil:
			return states, index, nil
		case !other || try == triesOfPeriod:
			return nil, nil, err
		}
		for i := range at {
			at[i] = times[index[i]]
		}
	}
}

// waitPeriod is Wait for a bucket under a quota of the calendar, in which no room comes before the
// end of the period. So it books nothing. It asks again at the end, or up to a quarter of the
// horizon later, because other callers wait for the same end.
func (l *Limiter) waitPeriod(ctx context.Context, b Bucket, n float64) (State, error) {
	w := waiter{n: n, last: time.Now().Add(l.maxWait)}
	for {
		st, err := l.TryFillup(ctx, b, n)
		if err != nil || st.Accepted {
			return st, err
		}
		if err := w.tooLate(ctx, st, 0); err != nil {
			return State{}, err
		}
		later := min(horizon/4, max(0, w.left(ctx)-st.RetryAfter))
		if err := sleep.For(ctx, st.RetryAfter+rand.N(later+1)); err != nil {
			return State{}, err
		}
	}
}

// statePeriod is State for a bucket under a quota of the calendar. The store answers by the limit
// last written, because the period is that of the bucket's time. Until the next write, units leave
// by that limit, too.
func (l *Limiter) statePeriod(ctx context.Context, b Bucket) (State, error) {
	st, err := first(l.kept().Read(ctx, Bucket{Key: b.Key}))
	if err != nil {
		return st, err
	}
	op := store.Op{Bucket: b}
	if err := op.SetPeriod(st.At); err != nil {
		return State{}, err
	}
	if st.Level == 0 {
		st.SetLimit(op.Limit)
	}
	st.Capacity = op.Capacity
	return st, nil
}
