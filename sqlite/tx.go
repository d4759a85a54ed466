package sqlite

import (
	"context"
	"database/sql"

	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// With returns a store whose calls are part of tx, a transaction of the database given to [New]: a
// charge commits, or rolls back, with the rows that it pays for. Nothing is granted until tx
// commits. It commits with the synchronous setting of its connection. A block that a refusal sets
// is lost if tx rolls back: to keep it, charge before tx writes anything else, and commit after a
// refusal.
//
// The first call that can write takes SQLite's one write lock, and everybody else who writes to the
// database waits until tx ends. If tx has read before, and another connection has written since,
// the call answers [store.ErrUnavailable] at once: roll tx back and begin again. A transaction that
// begins with the charge, or by BEGIN IMMEDIATE, has no such failures.
//
// A call runs to its end even if ctx ends meanwhile. Give contexts that end to BeginTx, and not to
// single statements: SQLite may roll back the whole transaction when it interrupts a write, and
// later statements would then commit by themselves.
//
// Like tx, the store is for one goroutine at a time. Roll tx back after an error other than
// [store.ErrNotHeld]. Close does nothing.
func (s *Store) With(tx *sql.Tx) store.Store {
	t := &txStore{s: s, tx: tx}
	t.Tx = records.Tx{In: t.do, List: page, Scan: pruneScan}
	return t
}

// txStore is a store within a transaction that its owner ends.
type txStore struct {
	records.Tx
	s  *Store
	tx *sql.Tx
}

var _ store.Store = (*txStore)(nil)

func (t *txStore) do(ctx context.Context, op string, writes bool, keys []string, fn func(v *records.View, now int64) error) error {
	err := t.s.run.Within(ctx, t.tx, writes, func(ctx context.Context) error {
		v := t.s.view(t.s.sql.On(ctx, t.tx))
		err := v.load(keys)
		if err == nil {
			err = fn(&v.View, t.s.run.Clock.Now())
		}
		if err == nil && writes {
			_, err = v.end()
		}
		return err
	})
	return store.Wrap(backend, op, err)
}

// Size returns the bytes of the database as tx sees it, without its log.
func (t *txStore) Size(ctx context.Context) (n int64, err error) {
	err = t.s.run.Within(ctx, t.tx, false, func(ctx context.Context) error {
		return t.tx.QueryRowContext(ctx, sizeOf).Scan(&n)
	})
	return n, store.Wrap(backend, "size", err)
}
