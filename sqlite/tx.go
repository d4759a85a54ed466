package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// With returns a store whose calls are part of tx, a transaction of the database given to [New]: a
// charge commits, or rolls back, with the rows that it pays for. Nothing is granted until tx commits. It
// commits with the synchronous setting of its connection. A block that a refusal sets is lost if tx
// rolls back: to keep it, charge before tx writes anything else, and commit after a refusal.
//
// The first call that can write takes SQLite's one write lock, and everybody else who writes to the
// database waits until tx ends. If tx has read before, and another connection has written since, the
// call answers [store.ErrUnavailable] at once: roll tx back and begin again. A transaction that
// begins with the charge, or by BEGIN IMMEDIATE, has no such failures.
//
// A call runs to its end even if ctx ends meanwhile. Give contexts that end to BeginTx, and not to
// single statements: SQLite may roll back the whole transaction when it interrupts a write, and later
// statements would then commit by themselves.
//
// Like tx, the store is for one goroutine at a time. Roll tx back after an error other than
// [store.ErrNotHeld]. Close does nothing.
func (s *Store) With(tx *sql.Tx) store.Store { return &txStore{s: s, tx: tx} }

// txStore is a store within a transaction that its owner ends.
type txStore struct {
	s  *Store
	tx *sql.Tx
}

var _ store.Store = (*txStore)(nil)

func (t *txStore) do(ctx context.Context, op string, writes bool, keys []string, fn func(v *view, now int64) error) error {
	err := t.s.run.Within(ctx, t.tx, writes, func(ctx context.Context) error {
		v := t.s.view(t.s.sql.On(ctx, t.tx))
		err := v.load(keys)
		if err == nil {
			err = fn(v, t.s.run.Clock.Now())
		}
		if err == nil && writes {
			_, err = v.end()
		}
		return err
	})
	return store.Wrap(backend, op, err)
}

func (t *txStore) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = t.do(ctx, "fill", op.Mode != store.Ask, []string{op.Key}, func(v *view, now int64) (err error) {
		st, err = v.fill(&op, now)
		return err
	})
	return st, err
}

func (t *txStore) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	writes := slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	err = t.do(ctx, "apply", writes, keysOf(txns), func(v *view, now int64) error {
		results = v.apply(txns, now)
		return nil
	})
	return results, err
}

func (t *txStore) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = t.do(ctx, "read", false, bucketKeys(buckets), func(v *view, now int64) (err error) {
		states, err = v.states(buckets, now)
		return err
	})
	return states, err
}

func (t *txStore) Delete(ctx context.Context, keys ...string) error {
	return t.do(ctx, "delete", true, keys, func(v *view, _ int64) error {
		v.remove(keys)
		return nil
	})
}

func (t *txStore) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
		err = t.do(ctx, "visit", false, nil, func(v *view, _ int64) (err error) {
			entries, err = v.page(prefix, after, limit)
			return err
		})
		return entries, err
	}, f)
}

// Size returns the bytes of the database as tx sees it, without its log.
func (t *txStore) Size(ctx context.Context) (n int64, err error) {
	err = t.s.run.Within(ctx, t.tx, false, func(ctx context.Context) error {
		return t.tx.QueryRowContext(ctx, sizeOf).Scan(&n)
	})
	return n, store.Wrap(backend, "size", err)
}

func (t *txStore) Prune(ctx context.Context) (pruned int64, err error) {
	damaged := 0
	for after, more := "", true; more && err == nil; {
		var keys []string
		err = t.do(ctx, "prune", false, nil, func(v *view, _ int64) (err error) {
			keys, after, more, err = v.expired(after, &damaged)
			return err
		})
		if err == nil && len(keys) > 0 {
			err = t.do(ctx, "prune", true, keys, func(v *view, now int64) error {
				pruned += v.prune(keys, now)
				return nil
			})
		}
	}
	return pruned, err
}

// Close does nothing: the owner of the transaction ends it.
func (t *txStore) Close() error { return nil }
