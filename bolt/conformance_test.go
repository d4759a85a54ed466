package bolt

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// unsynced makes s commit without waiting for the disk. The conformance tests with an injected
// clock make a hundred thousand commits, and durability does not matter to them.
func unsynced(s *Store) *Store {
	database(s).NoSync = true
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return openTemp(t, nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
			return unsynced(openTemp(t, &Options{Clock: clock}))
		},
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			again := openAt(t, s.(*Store).db.File().Path(), &Options{Clock: clock})
			if clock != nil {
				again = unsynced(again)
			}
			return again
		},
	})
}

// joinedStore is a store over the database of an application.
type joinedStore struct {
	*Store
	db *bbolt.DB
}

// TestConformanceOverAnApplicationsDatabase opens two stores over one database, which race like
// two processes.
func TestConformanceOverAnApplicationsDatabase(t *testing.T) {
	t.Parallel()
	over := func(t *testing.T, db *bbolt.DB, clock func() time.Time) store.Store {
		s, err := New(db, &Options{Clock: clock})
		must(t, err)
		return joinedStore{s, db}
	}
	storetest.Run(t, func(t *testing.T) store.Store { return over(t, openApp(t), nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
			db := openApp(t)
			db.NoSync = true
			return over(t, db, clock)
		},
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			return over(t, s.(joinedStore).db, clock)
		},
		Peer:       func(t *testing.T, s store.Store) store.Store { return over(t, s.(joinedStore).db, nil) },
		Operations: seed.Attempts(500, 5_000), // TestConformance makes a full run
		Keys:       500,
	})
}

// withStore makes each call in a transaction of its own.
type withStore struct{ joinedStore }

func (w withStore) in(fn func(s store.Store) error) error {
	return w.db.Update(func(tx *bbolt.Tx) error { return fn(w.With(tx)) })
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

// TestConformanceWith makes each call in a transaction of its own.
func TestConformanceWith(t *testing.T) {
	t.Parallel()
	over := func(t *testing.T, db *bbolt.DB, clock func() time.Time) store.Store {
		db.NoSync = true
		return withStore{joinedStore{newOver(t, db, &Options{Clock: clock}), db}}
	}
	storetest.Run(t, func(t *testing.T) store.Store { return over(t, openApp(t), nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return over(t, openApp(t), clock) },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			return over(t, s.(withStore).db, clock)
		},
		Operations: seed.Attempts(500, 1_000),
		Keys:       500,
	})
}

// openApp opens a database as an application does.
func openApp(t testing.TB) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
