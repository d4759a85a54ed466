package brim

import (
	"context"
	"errors"

	"github.com/brimgo/brim/store"
)

// isSpecial reports whether l is Nobody or Unlimited. Every call asks, so the comparison of a
// number comes first.
func isSpecial(l *Limit) bool { return l.Capacity == 0 && (*l == Nobody || *l == Unlimited) }

// fillSpecial is fill for a bucket under Nobody or Unlimited. A call that puts units in is
// answered without the store. One that takes units out reaches it, so that a hold from before the
// limit can end.
func (l *Limiter) fillSpecial(ctx context.Context, st *State, op *store.Op, least float64) error {
	limit := op.Limit
	if op.Mode == store.Always {
		op.Limit = Limit{} // the limit last written
	}
	if err := l.validSpecial(ctx, op, least); err != nil {
		return err
	}
	if op.Mode != store.Always {
		*st = store.Answered(ctx, l.store, *op, answer(op))
		return nil
	}
	var err error
	*st, err = l.store.Fill(ctx, *op)
	switch {
	case err == nil:
		setSpecialCapacity(st, limit)
	case limit == Unlimited && errors.Is(err, ErrNotHeld):
		// The hold was granted under Unlimited, and so it was not stored.
		*st, err = answer(&store.Op{Bucket: Bucket{Limit: limit}}), nil
	}
	return err
}

// validSpecial prepares an operation under Nobody or Unlimited, as prepare does for others.
func (l *Limiter) validSpecial(ctx context.Context, op *store.Op, least float64) error {
	limit := op.Limit
	if op.Mode < store.Always || op.Mode == store.Ask || op.Mode == store.UpTo {
		op.Limit = Limit{LeakRate: 1} // no amount is too small beside a capacity of 0
	}
	err := l.prepare(op, least)
	op.Limit = limit
	if err != nil {
		return err
	}
	op.BlockFor = 0 // there is no bucket to block
	return ctx.Err()
}

// answer is the State of an operation that puts units in, under Nobody or Unlimited.
func answer(op *store.Op) (st State) {
	n := op.Amount + op.Hold
	st.Accepted = op.Limit == Unlimited || n == 0
	setSpecialCapacity(&st, op.Limit)
	if st.Accepted {
		if op.Mode == store.UpTo {
			st.Taken = op.Amount
		}
		return st
	}
	st.RetryAfter = Never
	if op.Mode == store.Clamp {
		st.Spilled, st.Full = n, true
	}
	return st
}

// setSpecialCapacity sets the capacity that a State shows under Nobody or Unlimited.
func setSpecialCapacity(st *State, limit Limit) {
	st.Capacity = 0
	if limit == Unlimited {
		st.Capacity = store.MaxAmount
	}
}

// tryFillupSpecial is TryFillupAll where some fills are under Nobody or Unlimited. These drop out
// of the transaction. If one of them is refused, the others are only asked.
func (l *Limiter) tryFillupSpecial(ctx context.Context, fills []Fill) ([]State, error) {
	states := make([]State, len(fills))
	var others []Fill
	var at []int // others[i] is fills[at[i]]
	accepted := true
	for i, f := range fills {
		if !isSpecial(&f.Bucket.Limit) {
			others, at = append(others, f), append(at, i)
			continue
		}
		op := store.Op{Bucket: f.Bucket, Amount: f.Amount, Mode: f.mode()}
		if err := l.fillSpecial(ctx, &states[i], &op, f.Amount); err != nil {
			return nil, err
		}
		accepted = accepted && states[i].Accepted
	}
	for i := range others {
		others[i].AskOnly = others[i].AskOnly || !accepted
	}
	decided, err := l.TryFillupAll(ctx, others...)
	if err != nil {
		return nil, err
	}
	for i, st := range decided {
		states[at[i]] = st
		accepted = accepted && st.Accepted
	}
	for i := range states {
		states[i].Accepted = accepted
	}
	return states, nil
}
