package bolt

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Update runs fn, whose calls of the given store all happen in one transaction. It commits when
// fn returns nil. It rolls back when fn panics or returns an error, which Update returns as it
// is. No answer that fn receives counts before Update has returned nil. A rollback also undoes a
// block that a refusal has set.
//
// Update is for decisions that depend on one another, and for many decisions at once: thousands
// cost one commit. Update waits for the commit under way, and all other writers wait for fn. The
// clock is read for each call of fn. If ctx ends before fn returns, Update rolls back and returns
// its error.
//
// fn must not call methods of s but Read: such a call may wait for fn, and fn for the call, until
// the context of the call ends. The store that fn is given reads the changes of fn. Several
// goroutines of fn may use it at once. It answers [store.ErrClosed] after fn has returned.
func (s *Store) Update(ctx context.Context, fn func(store.Store) error) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "update", err)
	}
	var fnErr error
	run := func(v *view) error {
		j := &joined{s: s, view: v}
		defer j.end()
		fnErr = fn(j)
		if fnErr == nil {
			fnErr = ctx.Err()
		}
		return fnErr
	}
	err := s.update(ctx, run)
	if fnErr != nil {
		return fnErr
	}
	return store.Wrap(backend, "update", err)
}

// update calls run with a view of a new transaction, and commits the changes.
func (s *Store) update(ctx context.Context, run func(*view) error) error {
	if s.logged != nil {
		return s.logged.update(ctx, run)
	}
	if err := s.file.Lock(ctx); err != nil {
		return err
	}
	defer s.file.Unlock()
	v := s.newView()
	return s.write(v, func() error { return run(v) })
}

// With returns a store whose calls happen in tx, a transaction of the database given to [New].
// Their decisions are durable when the application commits tx, and undone when it rolls back, as
// is a block that a refusal has set. To keep the block, charge before tx writes anything else, and
// commit tx after a refusal. Reads and calls in mode [store.Ask] work in a read-only transaction,
// too.
//
// Like tx, the store is for one goroutine at a time, and it is of no use once tx has ended. Roll
// tx back after an error other than [store.ErrNotHeld]. Close does nothing. Callers of s itself
// wait while tx is writable and open.
func (s *Store) With(tx *bbolt.Tx) store.Store { return &joined{s: s, tx: tx} }

// joined is a store within a transaction that its owner ends.
type joined struct {
	s  *Store
	tx *bbolt.Tx // of With; nil for Update

	mu sync.Mutex
	// view is the view of Update, which writes it at its end. It is nil after Update, and for With,
	// which writes a new view in each call.
	view *view
}

var _ store.Store = (*joined)(nil)

// end ends the store of Update. The application may keep that store for long, so end drops the
// view, which has an entry for each bucket of the transaction.
func (j *joined) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view = nil
}

// do runs fn on a view of the transaction.
func (j *joined) do(ctx context.Context, op string, writes bool, fn func(v *view, now int64) error) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case j.tx != nil:
		err = j.within(writes, fn)
	case j.view == nil:
		err = store.ErrClosed
	default:
		if err = j.s.file.Usable(); err == nil {
			err = j.s.file.Guard(func() error { return fn(j.view, j.s.clock.Now()) })
		}
	}
	return store.Wrap(backend, op, err)
}

// within runs fn on a new view of the transaction of With, and writes the changes.
func (j *joined) within(writes bool, fn func(v *view, now int64) error) error {
	return j.s.file.Within(j.tx, writes, func() error {
		// bbolt refers to the buffers of this view until the transaction ends, so each call has a
		// new one.
		v := j.s.newView()
		if err := v.reset(j.tx, j.s.layout); err != nil {
			return err
		}
		now := j.s.clock.Now()
		if err := fn(v, now); err != nil || !writes {
			return err
		}
		_, err := v.write(now)
		return err
	})
}

// newView returns a view that is of no transaction yet.
func (s *Store) newView() *view {
	return &view{maxSkew: s.options.MaxSkew, keepTime: s.options.Clock == nil}
}

func (j *joined) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = j.do(ctx, "fill", op.Mode != store.Ask, func(v *view, now int64) (err error) {
		st, err = v.fill(&op, now)
		return err
	})
	return st, err
}

func (j *joined) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	writes := slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	err = j.do(ctx, "apply", writes, func(v *view, now int64) error {
		results = v.apply(txns, now)
		return nil
	})
	return results, err
}

func (j *joined) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = j.do(ctx, "read", false, func(v *view, now int64) error {
		states = make([]store.State, len(buckets))
		for i, b := range buckets {
			e := v.entry(b.Key)
			if e.err != nil {
				return e.err
			}
			states[i] = e.at(now).State(b.Limit, now, v.maxSkew)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

func (j *joined) Delete(ctx context.Context, keys ...string) error {
	return j.do(ctx, "delete", true, func(v *view, _ int64) error {
		v.delete(keys)
		return nil
	})
}

func (j *joined) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
		err = j.do(ctx, "visit", false, func(v *view, now int64) (err error) {
			if _, err := v.write(now); err != nil { // a cursor of bbolt does not see the changes in the view
				return err
			}
			entries, err = j.s.scan(v.records, prefix, after, limit)
			return err
		})
		return entries, err
	}, f)
}

// Size returns the bytes of the file before the transaction.
func (j *joined) Size(ctx context.Context) (size int64, err error) {
	err = j.do(ctx, "size", false, func(*view, int64) (err error) { size, err = j.s.size(); return err })
	return size, err
}

func (j *joined) Prune(ctx context.Context) (pruned int64, err error) {
	err = j.do(ctx, "prune", true, func(v *view, now int64) error {
		if _, err := v.write(now); err != nil {
			return err
		}
		var keys []string
		c := v.records.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			if rec, _, err := v.layout.decodeRecord(key, value); err == nil && rec.Expired(now, v.maxSkew) {
				keys = append(keys, string(key))
			}
		}
		pruned = v.prune(keys, now)
		return nil
	})
	return pruned, err
}

// Close does nothing: the owner of the transaction ends it.
func (j *joined) Close() error { return nil }
