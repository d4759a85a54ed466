package pgledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

func benchPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	cfg := pgtest.Pool(b).Config()
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func execute(b *testing.B, pool *pgxpool.Pool, sql string) {
	b.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFlat measures whether the cost of a decision grows with the entries in the window.
// Filling the tables takes minutes.
func BenchmarkFlat(b *testing.B) {
	pool := benchPool(b)
	spendload.Flat(b,
		func(clock func() time.Time) ledger.Ledger {
			return over(b, pool, &postgres.Options{Schema: migrated(b, pool), Clock: clock})
		},
		func() { execute(b, pool, `VACUUM ANALYZE`) })
}
