package brim

import (
	"context"
	"errors"
	"fmt"

	"github.com/brimgo/brim/internal/shadow"
	"github.com/brimgo/brim/store"
)

var (
	errShadowHold = fmt.Errorf("brim: %w: a hold that does not fit reserves nothing, so it cannot pass; "+
		"use a Limiter without Shadow", errors.ErrUnsupported)
	errShadowTurn = fmt.Errorf("brim: %w: an amount that does not fit has no turn, so it cannot pass; "+
		"use a Shaper of a Limiter without Shadow", errors.ErrUnsupported)
)

// fillShadow is fill for a TryFillup, a TakeUpTo, a Hold and a question of a Limiter with Shadow.
func (l *Limiter) fillShadow(ctx context.Context, st *State, op *store.Op, least float64) error {
	switch {
	case op.Hold != 0:
		return errShadowHold
	case op.Turn:
		return errShadowTurn
	}
	f := Fill{Bucket: op.Bucket, Amount: op.Amount, AskOnly: op.Mode == store.Ask}
	states := make([]State, 1)
	err := l.enforced().fill(shadow.Context(ctx), &states[0], op, least)
	if op.Mode == store.UpTo {
		if st := &states[0]; st.Taken < op.Amount && st.Accepted { // the limit cuts the amount
			st.RetryAfter = st.When(op.Amount - st.Taken)
		}
		states[0].Taken = op.Amount
	}
	if err = l.pass(ctx, []Fill{f}, states, err); err == nil {
		*st = states[0]
	}
	return err
}

// tryFillupAllShadow is TryFillupAll for a Limiter with Shadow.
func (l *Limiter) tryFillupAllShadow(ctx context.Context, fills []Fill) ([]State, error) {
	states, err := l.enforced().TryFillupAll(shadow.Context(ctx), fills...)
	if err != nil {
		states = make([]State, len(fills))
	}
	if err := l.pass(ctx, fills, states, err); err != nil {
		return nil, err
	}
	return states, nil
}

// enforced returns a copy of l that enforces its limits.
func (l *Limiter) enforced() *Limiter {
	without := *l
	without.shadow = nil
	return &without
}

// pass accepts fills that were decided together, whatever their states or err say, and reports the
// refusals or the failure to Shadow. It returns an error that is the caller's own: an invalid
// argument, or the end of its context.
func (l *Limiter) pass(ctx context.Context, fills []Fill, states []State, err error) error {
	if err != nil && (ctx.Err() != nil || errors.Is(err, ErrInvalidKey) || errors.Is(err, ErrInvalidAmount) ||
		errors.Is(err, ErrInvalidLimit)) {
		return err
	}
	for i, f := range fills {
		st := &states[i]
		switch {
		case err != nil:
			*st = State{Capacity: f.Bucket.Capacity, LeakRate: f.Bucket.LeakRate, Estimate: true}
			l.shadow(ctx, f, err)
		case st.RetryAfter > 0:
			l.shadow(ctx, f, &OverLimitError{*st})
		}
		st.Accepted = true
	}
	return nil
}
