package pgledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/load"
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

// BenchmarkAuthorize measures authorizations under three rules, over 10,000 accounts, in turn
// with one bare single-row UPDATE per decision through the same pool.
func BenchmarkAuthorize(b *testing.B) {
	const accounts = 10_000
	pool := benchPool(b)
	schema := migrated(b, pool)
	l := over(b, pool, &postgres.Options{Schema: schema})
	execute(b, pool, `CREATE TABLE `+schema+`.reference
		(key text COLLATE "C" PRIMARY KEY, level float8 NOT NULL, atime timestamptz NOT NULL) WITH (fillfactor = 85)`)
	execute(b, pool, fmt.Sprintf(`INSERT INTO `+schema+`.reference SELECT 'account:' || i, 0, now() FROM generate_series(0, %d) AS i`, accounts-1))
	authorize := spendload.Authorizer(b, l, 30*24*time.Hour)
	update := func(account int) error {
		_, err := pool.Exec(context.Background(), `UPDATE `+schema+`.reference SET level = level + 1, atime = clock_timestamp() WHERE key = $1`,
			fmt.Sprint("account:", account))
		return err
	}
	spendload.Rate(b, 2*time.Second, accounts, authorize)
	execute(b, pool, `VACUUM ANALYZE`)
	for b.Loop() {
		var ours, bare []float64
		for range 5 {
			bare = append(bare, spendload.Rate(b, 1500*time.Millisecond, accounts, update))
			ours = append(ours, spendload.Rate(b, 1500*time.Millisecond, accounts, authorize))
		}
		ratio, _ := load.Ratio(ours, bare)
		b.ReportMetric(ratio, "x-bare-update")
		b.ReportMetric(load.Median(ours), "authorize/s")
		b.ReportMetric(load.Median(bare), "update/s")
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
