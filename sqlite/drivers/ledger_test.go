package drivers

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
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
	spendtest.Random(t, ledgers(t, d), 100)
}

var update = flag.Bool("update", false, "write testdata/format1.db anew")

// earlierVersions reads the buckets and the spends of the first version, and goes on with them.
func earlierVersions(t *testing.T, d Driver) {
	const sample = "testdata/format1.db"
	clock := brimtest.NewClock(time.Now())
	with := func(path string, f func(*sqlite.Store, ledger.Ledger)) {
		h := harness{Driver: d, full: true}
		db := h.database(t, path)
		s := h.over(t, db, path, clock.Now)
		l, err := sqliteledger.New(t.Context(), s.Store, nil)
		must(t, err)
		f(s.Store, l)
		must(t, errors.Join(l.Close(), s.Close(), db.Close()))
	}
	if *update {
		_ = os.Remove(sample)
		with(sample, func(s *sqlite.Store, l ledger.Ledger) {
			must(t, errors.Join(kept.Spend(t.Context(), l, clock), kept.Fill(t.Context(), s)))
		})
	}
	file, err := os.ReadFile(sample)
	must(t, err)
	path := filepath.Join(t.TempDir(), "app.db")
	must(t, os.WriteFile(path, file, 0o600))
	with(path, func(s *sqlite.Store, l ledger.Ledger) {
		kept.CompareBuckets(t, s, clock)
		kept.Compare(t, l, clock)
	})
}
