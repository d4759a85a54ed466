package postgres_test

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

// TestMain fails if a goroutine is left when all tests have closed their stores.
func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// migrated makes the tables in a schema of the test's own and returns its name.
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

// open returns a store over its own schema on the shared server.
func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	pool := pgtest.Pool(t)
	o.Schema = migrated(t)
	return over(t, pool, o)
}

// over returns a store whose calls have a minute, unless o says otherwise: a machine or its disk
// may stand still for as long as a store waits by default.
func over(t testing.TB, pool *pgxpool.Pool, o postgres.Options) *postgres.Store {
	t.Helper()
	o.StatementTimeout = cmp.Or(o.StatementTimeout, time.Minute)
	s, err := postgres.New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
