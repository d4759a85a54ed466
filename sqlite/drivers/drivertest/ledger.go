package drivertest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/spend/sqliteledger"
)

// ledgers keeps ledgers in one database.
func ledgers(t *testing.T, d Driver) spendtest.Harness {
	t.Helper()
	h := harness{Driver: d, full: true}
	path := filepath.Join(t.TempDir(), "app.db")
	var db *sql.DB
	var s opened
	open := func() {
		db = h.database(t, path)
		s = h.over(t, db, path, nil)
	}
	open()
	newLedger := func(t testing.TB, clock func() time.Time) ledger.Ledger {
		l, err := sqliteledger.New(context.Background(), s.Store, &sqliteledger.Options{Clock: clock})
		must(t, err)
		return l
	}
	t.Cleanup(func() { must(t, s.Close()) })
	return spendtest.Harness{
		New: newLedger,
		Crash: func(t testing.TB, l ledger.Ledger, f func(ledger.Ledger)) {
			tx, err := db.Begin()
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			f(l.(*sqliteledger.Ledger).With(tx))
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

func ledgerConformance(t *testing.T, d Driver) { spendtest.Run(t, ledgers(t, d)) }

func ledgerRandom(t *testing.T, d Driver) {
	spendtest.Random(t, ledgers(t, d), seed.Attempts(100, 10_000))
}
