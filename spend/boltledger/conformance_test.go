package boltledger_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// harness keeps ledgers in one database that does not sync: other tests crash the process.
func harness(t *testing.T) spendtest.Harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	var db *bbolt.DB
	var s *bolt.Store
	open := func() {
		var err error
		if db, err = bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true}); err != nil {
			t.Fatal(err)
		}
		if s, err = bolt.New(db, &bolt.Options{PruneEvery: -1}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	newLedger := func(t testing.TB, clock func() time.Time) ledger.Ledger {
		l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
		must(t, err)
		return l
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return spendtest.Harness{
		New: newLedger,
		Crash: func(t testing.TB, l ledger.Ledger, f func(ledger.Ledger)) {
			tx, err := db.Begin(true)
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			f(l.(*boltledger.Ledger).With(tx))
		},
		Reopen: func(t testing.TB, l ledger.Ledger, clock func() time.Time) ledger.Ledger {
			must(t, errors.Join(l.Close(), s.Close(), db.Close()))
			open()
			return newLedger(t, clock)
		},
		Ledgers: 1, PerLedger: 64,
		CompareRarely: true,
	}
}

func TestRandom(t *testing.T) {
	spendtest.Random(t, harness(t), 400)
}

func TestConformance(t *testing.T) { spendtest.Run(t, harness(t)) }
