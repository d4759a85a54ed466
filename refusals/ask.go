package refusals

import (
	"context"

	"github.com/brimgo/brim/store"
)

// patience is for how many answers to others' questions a caller waits before it asks itself.
const patience = 3

// ask puts the question to the store and learns from the answer.
func (s *Store) ask(ctx context.Context, op *store.Op, b *set, h uint64) (store.State, error) {
	counted := false
	if refusable(op) {
		for round := 0; b.find(h, op.Key) != nil; round++ {
			st, news, verdict := s.turn(b, h, op, round)
			if verdict == refuse {
				return st, nil
			}
			if verdict == wait {
				select {
				case <-news:
				case <-ctx.Done():
					return store.State{}, store.Wrap(backend, "fill", ctx.Err())
				}
				if s.closed.Load() {
					return store.State{}, store.Wrap(backend, "fill", store.ErrClosed)
				}
				continue
			}
			counted = verdict == goCounted
			break
		}
	}
	return s.send(ctx, op, b, h, counted)
}

type verdict uint8

const (
	goUncounted verdict = iota
	goCounted
	wait
	refuse
)

// turn says what a caller does whose bucket is known, or was a moment ago.
func (s *Store) turn(b *set, h uint64, op *store.Op, round int) (st store.State, news <-chan struct{}, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(h, op.Key)
	if e == nil || e.rec.Limit != op.Limit {
		return st, nil, goUncounted
	}
	now := s.now()
	if e.refuse(op, now, s.remember, &st) {
		return st, nil, refuse
	}
	if e.asking > 0 && round < patience && !e.beside(op, now, s.remember) {
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		return st, e.changed, wait
	}
	e.asking++
	e.units += op.Amount + op.Hold
	return st, nil, goCounted
}

// send asks the store, whatever is known.
func (s *Store) send(ctx context.Context, op *store.Op, b *set, h uint64, counted bool) (st store.State, err error) {
	defer func() {
		if counted { // also after a panic, or others would wait for ever
			b.mu.Lock()
			b.answered(h, op)
			b.mu.Unlock()
		}
	}()
	gen := b.begin(op.Limit)
	sent := s.now()
	st, err = s.inner.Fill(ctx, *op)
	if err != nil {
		if !b.by(op.Limit) {
			b.forget(h, op.Key) // it may have gone in by its own limit
		}
		return st, err
	}
	refused := op.Mode == store.IfFits && !st.Accepted
	if !refused && b.by(op.Limit) && st.BlockedUntil.IsZero() && st.Level+st.Held+op.Amount+op.Hold <= op.Capacity && b.find(h, op.Key) == nil {
		return st, nil // there is room, and nothing to correct
	}
	e := learned(op, &st, sent, s.now())
	b.mu.Lock()
	if counted {
		b.answered(h, op) // in one with what it taught, so that those who wait wake to both
		counted = false
	}
	b.learn(h, op.Key, e, refused, gen, s.remember)
	b.mu.Unlock()
	return st, nil
}

// answered ends a counted question. The set is locked.
func (b *set) answered(h uint64, op *store.Op) {
	e := b.find(h, op.Key)
	if e == nil {
		return
	}
	// The entry may be younger than the question, which then was not counted in it.
	e.asking = max(0, e.asking-1)
	e.units = max(0, e.units-op.Amount-op.Hold)
	if e.asking == 0 {
		e.units = 0 // what rounding left
	}
	e.wake()
}
