package refusals

import (
	"context"

	"github.com/brimgo/brim/store"
)

// maxWaits is the number of answers to other callers' questions that a caller waits for before it
// asks by itself.
const maxWaits = 3

// ask decides an op that memory did not refuse at first. It uses the answer that another caller
// waits for, or asks the store.
func (s *Store) ask(ctx context.Context, op *store.Op, cs *cacheSet, h uint64) (store.State, error) {
	counted := false
	if refusable(op) {
		for waits := 0; cs.find(h, op.Key) != nil; waits++ {
			st, changed, next := s.next(cs, h, op, waits)
			if next == refuse {
				return st, nil
			}
			if next == wait {
				select {
				case <-changed:
				case <-ctx.Done():
					return store.State{}, store.Wrap(backend, "fill", ctx.Err())
				}
				if s.closed.Load() {
					return store.State{}, store.Wrap(backend, "fill", store.ErrClosed)
				}
				continue
			}
			counted = next == sendCounted
			break
		}
	}
	return s.send(ctx, op, cs, h, counted)
}

// step is the next thing that a caller does.
type step uint8

const (
	send        step = iota // send the question
	sendCounted             // send the question, which the snapshot counts as pending
	wait                    // wait for the answer to another caller's question
	refuse                  // return the refusal
)

// next returns the next step of a caller of a remembered bucket. With step wait, changed is
// closed when the caller should try again.
func (s *Store) next(cs *cacheSet, h uint64, op *store.Op, waits int) (st store.State, changed <-chan struct{}, _ step) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	e := cs.find(h, op.Key)
	if e == nil || e.rec.Limit != op.Limit {
		return st, nil, send
	}
	now := s.now()
	if e.refuse(op, now, s.remember, &st) {
		return st, nil, refuse
	}
	if e.calls > 0 && waits < maxWaits && !e.fitsBesidePending(op, now, s.remember) {
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		return st, e.changed, wait
	}
	e.calls++
	e.units += op.Amount + op.Hold
	return st, nil, sendCounted
}

// send asks the wrapped store and learns from the answer. counted reports whether the bucket's
// snapshot counts the question as pending.
func (s *Store) send(ctx context.Context, op *store.Op, cs *cacheSet, h uint64, counted bool) (st store.State, err error) {
	defer func() {
		if counted { // after an error or a panic; other callers must not wait for ever
			cs.mu.Lock()
			cs.settle(h, op)
			cs.mu.Unlock()
		}
	}()
	generation := cs.begin(op.Limit)
	sent := s.now()
	st, err = s.inner.Fill(ctx, *op)
	if err != nil {
		// The fill may have gone in under another limit than the last call's, or than the
		// snapshot's.
		if e := cs.find(h, op.Key); !cs.lastLimitIs(op.Limit) || e != nil && e.rec.Limit != op.Limit {
			cs.forget(h, op.Key)
		}
		return st, err
	}
	refused := op.Mode == store.IfFits && !st.Accepted
	fitsAgain := st.BlockedUntil.IsZero() && st.Level+st.Held+op.Amount+op.Hold <= op.Capacity
	if !refused && fitsAgain && cs.lastLimitIs(op.Limit) && cs.find(h, op.Key) == nil {
		return st, nil // the bucket has room, and no snapshot has to be corrected
	}
	e := newSnapshot(op, &st, sent, s.now())
	cs.mu.Lock()
	if counted {
		cs.settle(h, op) // under the same lock as learn, so that waiting callers wake to the new snapshot
		counted = false
	}
	cs.learn(h, op.Key, e, refused, generation, s.remember)
	cs.mu.Unlock()
	return st, nil
}

// settle ends a pending question. The set is locked.
func (cs *cacheSet) settle(h uint64, op *store.Op) {
	e := cs.find(h, op.Key)
	if e == nil {
		return
	}
	// If the snapshot is younger than the question, it never counted the question.
	e.calls = max(0, e.calls-1)
	e.units = max(0, e.units-op.Amount-op.Hold)
	if e.calls == 0 {
		e.units = 0 // removes a remainder that rounding left
	}
	e.notify()
}
