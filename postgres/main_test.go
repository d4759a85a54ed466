package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

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
