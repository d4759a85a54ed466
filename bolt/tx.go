package bolt

import (
	"context"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/records"
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
		j := s.within(nil, v)
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
func (s *Store) With(tx *bbolt.Tx) store.Store { return s.within(tx, nil) }

// txStore is a store within a transaction that its owner ends.
type txStore struct {
	records.Tx
	s  *Store
	tx *bbolt.Tx // of With; nil for Update

	mu   sync.Mutex
	view *view // of Update; nil after it, and for With, where each call has one of its own
}

func (s *Store) within(tx *bbolt.Tx, v *view) *txStore {
	j := &txStore{s: s, tx: tx, view: v}
	j.Tx = records.Tx{In: j.do, List: page, Scan: pruneScan}
	return j
}

// updateStore is the store that Update gives.
type updateStore struct{ *txStore }

var (
	_ store.Store = (*txStore)(nil)
	_ kv.Updating = updateStore{}
)

// InUpdate runs fn in the transaction. It is for ledgers.
func (u updateStore) InUpdate(fn func(*kv.Tx) error) error {
	return u.in(true, func(v *view) error { return fn(v.tx) })
}

// end ends the store of Update, which the application may keep for long.
func (j *txStore) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view = nil
}

// do runs fn on a view of the transaction, which reads each bucket when it is needed.
func (j *txStore) do(ctx context.Context, op string, writes bool, _ []string, fn func(v *records.View, now int64) error) error {
	err := ctx.Err()
	if err == nil {
		err = j.in(writes, func(v *view) error { return fn(&v.View, j.s.clock.Now()) })
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
			v := j.s.view(tx)
			err := fn(v)
			v.end()
			return err
		})
	case j.view == nil:
		return store.ErrClosed
	}
	defer j.view.tx.Rest()
	if err := j.s.db.File().Usable(); err != nil {
		return err
	}
	return j.s.db.File().Guard(func() error { return fn(j.view) })
}

// Size returns the bytes of the file before the transaction.
func (j *txStore) Size(ctx context.Context) (size int64, err error) {
	err = j.do(ctx, "size", false, nil, func(*records.View, int64) (err error) { size, err = j.s.db.Size(); return err })
	return size, err
}
