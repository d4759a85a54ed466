package pgledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
)

// TestPagesOfOneDate counts the entries that the server reads of an account with 4,000 entries of
// one date, half of them corrections, which were made later. A decline reads two short parts of
// them. The decision whose window they leave reads them by pages. While the corrections were made
// in the window and count before it, decisions pass over few of them.
func TestPagesOfOneDate(t *testing.T) {
	admin := pgtest.Pool(t)
	for name, parts := range map[string][]string{"one table": nil, "partitions": {"2026-03-01", "2026-03-02", "2026-03-03"}} {
		t.Run(name, func(t *testing.T) {
			schema := migrated(t)
			if parts != nil {
				ranged(t, admin, schema, parts...)
			}
			start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			now := start
			const half, declines = 2000, 20
			rows := func(act func(b *spend.Budgets)) (n int) {
				t.Helper()
				count := func() (n int) {
					err := admin.QueryRow(t.Context(), `SELECT sum(t.seq_tup_read) + sum(i.read)
						FROM pg_stat_user_tables AS t
						     CROSS JOIN LATERAL (SELECT sum(idx_tup_read) AS read FROM pg_stat_user_indexes WHERE relid = t.relid) AS i
						WHERE t.relid = $1::text::regclass OR t.relid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::text::regclass)`,
						schema+".buckets_entries").Scan(&n)
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				before := count()
				pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["application_name"] = schema
					c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
				})
				l := over(t, pool, &postgres.Options{Schema: schema, Clock: func() time.Time { return now }})
				act(budgetOf(t, l, "cards", spend.Rolling("day", eur(2*half), 24*time.Hour)))
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				pool.Close() // the server counts at the latest when a session ends
				pgtest.Reported(t, admin, schema)
				return count() - before
			}
			rows(func(b *spend.Budgets) {
				var list []spend.Request
				for i := range half {
					list = append(list, spend.Request{ID: fmt.Sprint("c", i), Account: "a", Amount: eur(1)})
				}
				mustCharge(t, b, list...)
				now = start.Add(time.Hour)
				var wg sync.WaitGroup
				for i := range half { // all at the same time, so that they share transactions
					wg.Go(func() {
						r := spend.Request{ID: fmt.Sprint("r", i), Account: "a", Amount: eur(1), Dated: start}
						if d, err := b.Record(t.Context(), r); err != nil || !d.Approved {
							t.Error(d, err)
						}
					})
				}
				wg.Wait()
			})
			run(t, admin, "ANALYZE "+schema+".buckets_entries")
			decline := func(amount int64, after time.Duration) {
				t.Helper()
				n := rows(func(b *spend.Budgets) {
					for i := range declines {
						d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint("d", amount, i), Account: "a", Amount: eur(amount)})
						if err != nil || d.Approved || d.RetryAfter != after || !d.AtLeast {
							t.Fatalf("%+v, %v; want a decline for %v at least", d, err, after)
						}
					}
				})
				if n > declines*100 {
					t.Errorf("%d declines of %d read %d entries; want 100 each at most", declines, amount, n)
				}
			}
			decline(1, 23*time.Hour)
			now = start.Add(24 * time.Hour)
			if n := rows(func(b *spend.Budgets) { charge(t, b, "a", "leaves") }); n < 2*half || n > 3*half+200 {
				t.Errorf("the decision that moves the window reads %d entries; want %d to %d", n, 2*half, 3*half+200)
			}
			now = now.Add(time.Second) // the corrections were made in the window
			if n := rows(func(b *spend.Budgets) { charge(t, b, "a", "after") }); n > 100 {
				t.Errorf("the decision after it reads %d entries; want 100 at most", n)
			}
			decline(2*half, time.Hour-time.Second)
		})
	}
}
