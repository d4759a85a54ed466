package bolt

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/intx"
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

// inTransactions makes each call of a store in a transaction of its own.
func inTransactions(j joinedStore) store.Store {
	return intx.Store{Store: j, In: func(fn func(s store.Store) error) error {
		return j.db.Update(func(tx *bbolt.Tx) error { return fn(j.With(tx)) })
	}}
}

// TestConformanceWith makes each call in a transaction of its own.
func TestConformanceWith(t *testing.T) {
	t.Parallel()
	over := func(t *testing.T, db *bbolt.DB, clock func() time.Time) store.Store {
		db.NoSync = true
		return inTransactions(joinedStore{newOver(t, db, &Options{Clock: clock}), db})
	}
	storetest.Run(t, func(t *testing.T) store.Store { return over(t, openApp(t), nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store { return over(t, openApp(t), clock) },
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			return over(t, s.(intx.Store).Store.(joinedStore).db, clock)
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
