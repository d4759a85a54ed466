// Package pgstore opens stores in PostgreSQL for tests.
package pgstore

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

// New returns a store in a schema of its own, and a pool whose connections begin in that schema.
// Both are closed at the end of t.
func New(t testing.TB, o postgres.Options) (*pgxpool.Pool, *postgres.Store) {
	t.Helper()
	o.Schema = pgtest.Schema(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "search_path="+o.Schema))
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: o.Schema}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	return pool, s
}
