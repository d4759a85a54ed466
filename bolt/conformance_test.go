package bolt

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

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
	storetest.Run(t, func(t *testing.T) store.Store { return openTemp(t, nil) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
			return unsynced(openTemp(t, &Options{Clock: clock}))
		},
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			again := openAt(t, s.(*Store).file.Path(), &Options{Clock: clock})
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
	over := func(t *testing.T, db *bbolt.DB, clock func() time.Time) store.Store {
		s, err := New(db, &Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
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
		Operations: 5_000,
		Keys:       500,
	})
}

// openApp opens a database as an application does.
func openApp(t testing.TB) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
