package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"

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
func migrated(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	schema := pgtest.Schema(t)
	if err := migrations.Up(context.Background(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return schema
}

// open returns a store over its own schema on the shared server.
func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	pool := pgtest.Pool(t)
	o.Schema = migrated(t, pool)
	return over(t, pool, o)
}

func over(t testing.TB, pool *pgxpool.Pool, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
