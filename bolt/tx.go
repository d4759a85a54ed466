package bolt

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Update runs fn, whose calls of the given store all happen in one transaction. It commits when
// fn returns nil. It rolls back when fn panics or returns an error, which Update returns as it
// is. No answer that fn receives counts before Update has returned nil. A rollback also undoes a
// block that a refusal has set.
//
// Update is for decisions that depend on one another, and for many decisions at once: thousands
// cost one sync. Update waits for the flush under way, and all other writers wait for fn. The
// clock is read for each call of fn. If ctx ends before fn returns, Update rolls back and returns
// its error.
//
// fn must not call methods of s but Read: such a call may wait for fn, and fn for the call, until
// the context of the call ends. The store that fn is given reads the changes of fn. Several
// goroutines of fn may use it at once. It answers [store.ErrClosed] after fn has returned.
func (s *Store) Update(ctx context.Context, fn func(store.Store) error) error {
	err := s.check(ctx)
	if err == nil {
		err = s.db.Lock(ctx)
	}
	if err != nil {
		return store.Wrap(backend, "update", err)
	}
	defer s.db.Unlock()
	var fnErr error
	err = s.update(func(v *view) error {
		j := &txStore{s: s, view: v}
		defer j.end()
		if fnErr = fn(updateStore{j}); fnErr == nil {
			fnErr = ctx.Err()
		}
		return fnErr
	})
	if fnErr != nil {
		return fnErr
	}
	return store.Wrap(backend, "update", err)
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
func (s *Store) With(tx *bbolt.Tx) store.Store { return &txStore{s: s, tx: tx} }

// txStore is a store within a transaction that its owner ends.
type txStore struct {
	s  *Store
	tx *bbolt.Tx // of With; nil for Update

	mu   sync.Mutex
	view *view // of Update; nil after it, and for With, where each call has one of its own
}

// updateStore is the store that Update gives.
type updateStore struct{ *txStore }

var (
	_ store.Store = (*txStore)(nil)
	_ kv.Updating = updateStore{}
)

// InUpdate runs fn in the transaction. It is for ledgers.
func (u updateStore) InUpdate(fn func(*kv.Tx) error) error {
	return u.in(true, func(v *view) error { return fn(v.Tx) })
}

// end ends the store of Update, which the application may keep for long.
func (j *txStore) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view = nil
}

// do runs fn on a view of the transaction.
func (j *txStore) do(ctx context.Context, op string, writes bool, fn func(v *view, now int64) error) error {
	err := ctx.Err()
	if err == nil {
		err = j.in(writes, func(v *view) error { return fn(v, j.s.clock.Now()) })
	}
	return store.Wrap(backend, op, err)
}

func (j *txStore) in(writes bool, fn func(v *view) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.tx != nil:
		return j.s.db.Within(j.tx, writes, func(tx *kv.Tx) error {
			if err := tx.Check(j.s.table); err != nil {
				return err
			}
			v := &view{Tx: tx, s: j.s}
			err := fn(v)
			v.end()
			return err
		})
	case j.view == nil:
		return store.ErrClosed
	}
	defer j.view.Rest()
	if err := j.s.db.File().Usable(); err != nil {
		return err
	}
	return j.s.db.File().Guard(func() error { return fn(j.view) })
}

func (j *txStore) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = j.do(ctx, "fill", op.Mode != store.Ask, func(v *view, now int64) (err error) {
		st, err = v.fill(&op, now)
		return err
	})
	return st, err
}

func (j *txStore) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	writes := slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	err = j.do(ctx, "apply", writes, func(v *view, now int64) error {
		results = v.apply(txns, now)
		return nil
	})
	return results, err
}

func (j *txStore) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = j.do(ctx, "read", false, func(v *view, _ int64) (err error) {
		states, err = v.read(buckets)
		return err
	})
	return states, err
}

func (j *txStore) Delete(ctx context.Context, keys ...string) error {
	return j.do(ctx, "delete", true, func(v *view, _ int64) error { return v.remove(keys) })
}

func (j *txStore) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
		err = j.do(ctx, "visit", false, func(v *view, _ int64) (err error) {
			entries, err = v.scan(prefix, after, limit)
			return err
		})
		return entries, err
	}, f)
}

// Size returns the bytes of the file before the transaction.
func (j *txStore) Size(ctx context.Context) (size int64, err error) {
	err = j.do(ctx, "size", false, func(*view, int64) (err error) { size, err = j.s.db.Size(); return err })
	return size, err
}

func (j *txStore) Prune(ctx context.Context) (pruned int64, err error) {
	err = j.do(ctx, "prune", true, func(v *view, now int64) error {
		damaged := 0
		for after, more := "", true; more; {
			var keys []string
			if keys, after, more, err = v.expired(after, &damaged); err != nil {
				return err
			}
			n, err := v.prune(keys, now)
			if pruned += n; err != nil {
				return err
			}
		}
		return nil
	})
	return pruned, err
}

// Close does nothing: the owner of the transaction ends it.
func (j *txStore) Close() error { return nil }
