package pgledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// TestMain fails if a goroutine is left when all tests have closed their stores and ledgers.
func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// migrated makes the tables in a schema of the test's own.
func migrated(t testing.TB) string {
	t.Helper()
	schema := pgtest.Schema(t)
	script, err := migrations.SQL(&migrations.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, script)
	return schema
}

// over returns a ledger over a store of its own, closed at the end of t. o may be nil. Calls have a
// minute, unless o says otherwise: a machine or its disk may stand still for as long as a store
// waits by default.
func over(t testing.TB, pool *pgxpool.Pool, o *postgres.Options) *pgledger.Ledger {
	t.Helper()
	patient := postgres.Options{StatementTimeout: time.Minute}
	if o != nil {
		patient = *o
		patient.StatementTimeout = cmp.Or(o.StatementTimeout, time.Minute)
	}
	s, err := postgres.New(pool, &patient)
	if err != nil {
		t.Fatal(err)
	}
	l, err := pgledger.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(l.Close(), s.Close()) })
	return l
}

// harness makes ledgers over connections with settings, which are those of a connection string.
func harness(t *testing.T, settings string) spendtest.Harness {
	t.Helper()
	return harnessAt(t, pgtest.With(t, settings))
}

// harnessAt makes ledgers over connections to a server, or to a pooler.
func harnessAt(t *testing.T, url string) spendtest.Harness {
	t.Helper()
	pool := pgtest.PoolAt(t, url, func(c *pgxpool.Config) {
		c.MaxConns = 12
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // no test of this suite crashes the server
	})
	return harnessOver(pool, migrated(t))
}

// harnessOver makes ledgers over the tables of a schema.
func harnessOver(pool *pgxpool.Pool, schema string) spendtest.Harness {
	newLedger := func(t testing.TB, clock func() time.Time) ledger.Ledger {
		return over(t, pool, &postgres.Options{Schema: schema, Clock: clock})
	}
	return spendtest.Harness{
		New: newLedger,
		Reopen: func(t testing.TB, l ledger.Ledger, clock func() time.Time) ledger.Ledger {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return newLedger(t, clock)
		},
		Crash: func(t testing.TB, l ledger.Ledger, f func(ledger.Ledger)) {
			tx, err := pool.Begin(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			f(l.(*pgledger.Ledger).With(tx))
		},
		Ledgers: 2, PerLedger: 64, CompareRarely: true,
	}
}

func TestRandom(t *testing.T) {
	t.Parallel()
	spendtest.Random(t, harness(t, ""), 120)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	spendtest.Run(t, harness(t, ""))
}

// TestSettingsChangeNoAnswer runs the random suite over connections whose settings change the text
// of times, doubles and bytes, in all modes of the driver.
func TestSettingsChangeNoAnswer(t *testing.T) {
	for _, mode := range pgtest.Modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			spendtest.Random(t, harness(t, pgtest.Distorted+"&default_query_exec_mode="+mode), seed.Attempts(12, 200))
		})
	}
}

// TestTransactionPooler runs the random suite through a pooler in transaction mode. Each
// transaction may reach another session of the server.
func TestTransactionPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		return // PgBouncer is not installed on every machine
	}
	for _, c := range []struct {
		name, settings string
		prepared       int
	}{
		{name: "with prepared statements", prepared: 200},
		{name: "without prepared statements", settings: "&default_query_exec_mode=exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spendtest.Random(t, harnessAt(t, pgtest.Pooler(t, "transaction", c.prepared)+c.settings), 200)
		})
	}
}
