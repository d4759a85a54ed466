package local

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// RefusalsOptions adjust [Refusals]. The zero value selects the defaults.
type RefusalsOptions struct {
	// Remember limits how long a refusal is remembered, counted from the moment at which the
	// question was sent; 0 means a second. Room that another process makes stays unused until then.
	// Remember does not limit the refusal of an amount above the bucket's capacity.
	Remember time.Duration
	// MaxBuckets is the approximate number of buckets that are remembered; 0 means 65,536. A bucket
	// that is forgotten for lack of space costs one more question to the store. The table allocates
	// about 50 bytes for each of MaxBuckets at once. Each remembered bucket takes another 192
	// bytes, and a copy of its key if the key is longer than 23 bytes.
	MaxBuckets int
	// Clock replaces the monotonic clock, for tests. It must be safe for concurrent use. If it runs
	// backwards, answers that were learned at a later time are ignored.
	Clock func() time.Time
}

// Refusals returns a store over s that refuses some calls from memory; o may be nil. If s is nil,
// the error is [store.ErrClosed]. It also fails if an option is negative.
//
// The store starts no goroutine. A refusal from memory takes no lock and writes no memory that
// callers share. If the context of a caller ends while it waits for the answer to another caller's
// question, it gets the context's error, and nothing was sent for it.
func Refusals(s store.Store, o *RefusalsOptions) (store.Store, error) {
	if o == nil {
		o = &RefusalsOptions{}
	}
	var err error
	if o.Remember < 0 {
		err = fmt.Errorf("Remember is %v; it must be positive, or 0 for a second", o.Remember)
	}
	r := &refusals{remember: int64(cmp.Or(o.Remember, time.Second))}
	if err := r.open("refusals", s, o.MaxBuckets, o.Clock, err); err != nil {
		return nil, err
	}
	r.table = newTable[cacheSet](2 * float64(cmp.Or(o.MaxBuckets, 1<<16))) // so that hardly any set has to evict a bucket
	return r, nil
}

// refusals is the store of [Refusals].
type refusals struct {
	wrapper
	table[cacheSet]
	remember int64 // nanoseconds
}

// now returns the nanoseconds on the clock that ages remembered refusals.
func (r *refusals) now() int64 {
	if r.clock != nil {
		return r.clock().UnixNano()
	}
	return int64(time.Since(r.start))
}

// Fill refuses op from memory if op is known not to fit, and asks the wrapped store otherwise.
func (r *refusals) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = r.check(ctx, "fill"); err != nil {
		return st, err
	}
	if op.Amount == 0 && op.Hold == 0 && op.Mode < store.Block {
		return r.Store.Fill(ctx, op)
	}
	now := r.now()
	cs, h := r.at(op.Key)
	switch {
	case op.Mode == store.Block:
		return r.observe(ctx, &op, cs, h)
	case op.Mode != store.Ask && (op.Amount < 0 || op.Hold < 0), op.Mode > store.Block, op.Limit == (store.Limit{}):
		st, err = r.Store.Fill(ctx, op)
		cs.forget(h, op.Key) // op may have made room, or taken an unknown amount, also if its outcome is unknown
		return st, err
	}
	if refusable(&op) {
		if e := cs.find(h, op.Key); e != nil && e.refuse(&op, now, r.remember, &st) {
			return st, nil
		}
	}
	if op.Mode == store.Ask {
		return r.observe(ctx, &op, cs, h)
	}
	return r.ask(ctx, &op, cs, h)
}

// refusable reports whether op may be refused from memory: its refusal depends only on the bucket's
// level and block.
func refusable(op *store.Op) bool {
	return (op.Mode == store.IfFits || op.Mode == store.Ask) && op.CeilingAt.IsZero()
}

// observe asks the wrapped store by an op of mode Ask or Block, and learns from a refusal or a
// block. The op adds no units, so nobody waits for its answer.
func (r *refusals) observe(ctx context.Context, op *store.Op, cs *cacheSet, h uint64) (store.State, error) {
	generation := cs.generation.Load()
	sent := r.now()
	st, err := r.Store.Fill(ctx, *op)
	if err != nil || op.Mode == store.Ask && st.Accepted || !op.CeilingAt.IsZero() {
		return st, err
	}
	e := newSnapshot(op, &st, sent, r.now())
	cs.mu.Lock()
	cs.note(h, op.Key, e, generation, r.remember)
	cs.mu.Unlock()
	return st, nil
}

// ask decides an op that memory did not refuse at first. It uses the answer that another caller
// waits for, or asks the store.
func (r *refusals) ask(ctx context.Context, op *store.Op, cs *cacheSet, h uint64) (st store.State, err error) {
	counted := false // the snapshot counts the question as pending
	for waits := 0; refusable(op) && cs.find(h, op.Key) != nil; waits++ {
		cs.mu.Lock()
		e := cs.find(h, op.Key)
		if e == nil || e.limit() != op.Limit {
			cs.mu.Unlock()
			break
		}
		now := r.now()
		if e.refuse(op, now, r.remember, &st) {
			cs.mu.Unlock()
			return st, nil
		}
		var changed <-chan struct{}
		if e.calls > 0 && waits < maxWaits && !e.fitsBesidePending(op, now, r.remember) {
			changed = e.await()
		} else {
			e.calls++
			e.units += op.Amount + op.Hold
			counted = true
		}
		cs.mu.Unlock()
		if counted {
			break
		}
		if err := r.wait(ctx, "fill", changed); err != nil {
			return st, err
		}
	}
	return r.send(ctx, op, cs, h, counted)
}

// send asks the wrapped store and learns from the answer. counted reports whether the bucket's
// snapshot counts the question as pending.
func (r *refusals) send(ctx context.Context, op *store.Op, cs *cacheSet, h uint64, counted bool) (st store.State, err error) {
	defer func() {
		if counted { // after an error or a panic; other callers must not wait for ever
			cs.mu.Lock()
			cs.endQuestion(h, op)
			cs.mu.Unlock()
		}
	}()
	generation := cs.begin(op.Limit)
	sent := r.now()
	st, err = r.Store.Fill(ctx, *op)
	if err != nil {
		// The fill may have gone in under another limit than the last call's, or than the
		// snapshot's.
		if e := cs.find(h, op.Key); !cs.lastLimitIs(op.Limit) || e != nil && e.limit() != op.Limit {
			cs.forget(h, op.Key)
		}
		return st, err
	}
	refused := op.Mode == store.IfFits && !st.Accepted
	fitsAgain := st.BlockedUntil.IsZero() && st.Level+st.Held+op.Amount+op.Hold <= op.Capacity
	if !refused && fitsAgain && cs.lastLimitIs(op.Limit) && cs.find(h, op.Key) == nil {
		return st, nil // the bucket has room, and no snapshot has to be corrected
	}
	e := newSnapshot(op, &st, sent, r.now())
	cs.mu.Lock()
	if counted {
		cs.endQuestion(h, op) // under the same lock as learn, so that waiting callers wake to the new snapshot
		counted = false
	}
	cs.learn(h, op.Key, e, refused, generation)
	cs.mu.Unlock()
	return st, nil
}

// Apply asks the wrapped store, and forgets the buckets of the operations that can change one. Even
// a refused transaction can: by a penalty, or because it ends the time at an old leak rate.
func (r *refusals) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	results, err := r.Store.Apply(ctx, txns...)
	for _, txn := range txns {
		for i := range txn {
			if op := &txn[i]; op.Mode != store.Ask {
				cs, h := r.at(op.Key)
				cs.forget(h, op.Key)
			}
		}
	}
	return results, err
}

// Delete removes buckets from the wrapped store and forgets them.
func (r *refusals) Delete(ctx context.Context, keys ...string) error {
	err := r.Store.Delete(ctx, keys...)
	for _, key := range keys {
		cs, h := r.at(key)
		cs.forget(h, key)
	}
	return err
}

// Prune asks the wrapped store. If the wrapped store removed a bucket, or may have removed one,
// Prune forgets all buckets. Otherwise, after the store's clock is set back by more than MaxSkew,
// the store would find an empty bucket, and memory would still show the old bucket leaking.
func (r *refusals) Prune(ctx context.Context) (int64, error) {
	n, err := r.Store.Prune(ctx)
	if n > 0 || err != nil {
		r.clear()
	}
	return n, err
}

// Close closes the wrapped store and forgets all buckets, so that callers which wait go on.
func (r *refusals) Close() error {
	r.closed.Store(true)
	err := r.Store.Close()
	r.clear()
	return err
}

// clear forgets all buckets.
func (r *refusals) clear() {
	for i := range r.sets {
		r.sets[i].clear()
	}
}
