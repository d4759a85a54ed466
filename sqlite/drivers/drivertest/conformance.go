package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func conformance(t *testing.T, d Driver) { harness{Driver: d}.conform(t, 0, 0) }

func conformanceOfOne(t *testing.T, d Driver) {
	harness{Driver: d, one: true}.conform(t, seed.Attempts(1000, 5000), 500)
}

func (h harness) conform(t *testing.T, operations, keys int) {
	storetest.Run(t, func(t *testing.T) store.Store { return h.store(t, nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return h.store(t, clock) },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			was := s.(opened)
			must(t, was.Close())
			must(t, was.db.Close())
			return h.over(t, h.database(t, was.path), was.path, clock)
		},
		Peer: func(t *testing.T, s store.Store) store.Store {
			path := s.(opened).path
			return h.over(t, h.database(t, path), path, nil)
		},
		Operations: operations, Keys: keys,
	})
}

// withStore makes each call in a transaction of its own.
type withStore struct{ opened }

func (w withStore) in(fn func(s store.Store) error) error {
	tx, err := w.db.Begin()
	if err != nil {
		return err
	}
	if err := fn(w.With(tx)); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (w withStore) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = w.in(func(s store.Store) (err error) { st, err = s.Fill(ctx, op); return err })
	return st, err
}

func (w withStore) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = w.in(func(s store.Store) (err error) { results, err = s.Apply(ctx, txns...); return err })
	return results, err
}

func (w withStore) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = w.in(func(s store.Store) (err error) { states, err = s.Read(ctx, buckets...); return err })
	return states, err
}

func (w withStore) Delete(ctx context.Context, keys ...string) error {
	return w.in(func(s store.Store) error { return s.Delete(ctx, keys...) })
}

// Visit calls f after the transaction, so that f may call the store.
func (w withStore) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	var entries []store.Entry
	err := w.in(func(s store.Store) (err error) { entries, err = paging.All(ctx, s, prefix); return err })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !f(e) {
			return nil
		}
	}
	return err
}

func (w withStore) Size(ctx context.Context) (n int64, err error) {
	err = w.in(func(s store.Store) (err error) { n, err = s.Size(ctx); return err })
	return n, err
}

func (w withStore) Prune(ctx context.Context) (n int64, err error) {
	err = w.in(func(s store.Store) (err error) { n, err = s.Prune(ctx); return err })
	return n, err
}

// conformanceWith has a pool of one connection: of several, one can wait for the lock for longer than
// any busy timeout.
func conformanceWith(t *testing.T, d Driver) {
	h := harness{Driver: d, one: true}
	storetest.Run(t, func(t *testing.T) store.Store { return withStore{h.store(t, nil)} }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return withStore{h.store(t, clock)} },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			was := s.(withStore).opened
			must(t, was.Close())
			must(t, was.db.Close())
			return withStore{h.over(t, h.database(t, was.path), was.path, clock)}
		},
		Operations: seed.Attempts(500, 1000), Keys: 500,
	})
}
