package pgledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
)

// TestBytesOfPayment sees that a card payment, authorized and captured, and charged to a card and
// to an account under three rules each, takes the bytes that docs/internals/spend.md tells, and that
// updates of accounts are heap-only. The server is one of its own, since other tests would write to
// the log meanwhile. The least of three measurements counts: the server writes to it as well.
func TestBytesOfPayment(t *testing.T) {
	const cards, teams = 400, 100
	payments := seed.Attempts(800, 20_000)
	// Accounts of the night have some hundred entries, and their pages of indexes have split in
	// halves. A slow machine puts fewer payments into a commit, and a commit takes bytes of its own.
	mostRows, mostLog := int64(seed.Attempts(1500, 1700)), int64(3300)
	server, schema := pgtest.NewServer(t), pgname.DefaultSchema
	pool := server.Pool(t)
	if err := migrations.Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	rules := []spend.Rule{
		spend.Rolling("rolling", eur(1<<40), 30*24*time.Hour), spend.Calendar("month", eur(1<<40), spend.Month, time.UTC),
		spend.PerTransaction("single", eur(1<<30)),
	}
	b, err := spend.New(over(t, pool, &postgres.Options{Schema: schema}), spend.Budget{Name: "cards", Currency: "EUR", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	n := 0
	pay := func() {
		var wg sync.WaitGroup
		for i := range 16 {
			first := n + i
			wg.Go(func() {
				for p := first; p < first+payments; p += 16 {
					r := spend.Request{
						ID: fmt.Sprintf("%012x%020x", time.Now().UnixMilli(), p), Amount: eur(int64(100 + p%10_000)),
						Account: fmt.Sprint("card:", p%cards), Also: []spend.Account{{Budget: "teams", Name: fmt.Sprint("team:", p%teams)}},
					}
					d, err := b.Authorize(ctx, r)
					if err == nil && d.Approved {
						d, err = b.Capture(ctx, spend.CaptureRequest{
							ID: fmt.Sprintf("%012xc%019x", time.Now().UnixMilli(), p), HoldID: r.ID, Amount: r.Amount, Final: true,
						})
					}
					if err != nil || !d.Approved {
						t.Error(d, err)
						return
					}
				}
			})
		}
		wg.Wait()
		n += payments
	}
	pay()
	rows, log := int64(1<<40), int64(1<<40)
	for range 3 {
		if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		pay() // the first change of a page after a checkpoint logs all of it
		before, from := size(t, pool, schema), query[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
		pay()
		log = min(log, query[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint", from)/int64(payments))
		rows = min(rows, (size(t, pool, schema)-before)/int64(payments))
	}
	pool.Close() // the server counts at the latest when a session ends
	last := server.Pool(t)
	all := query[float64](t, last, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'buckets_accounts'")
	hot := query[float64](t, last, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'buckets_accounts'")
	if t.Logf("%.3f of %.0f updates of accounts are heap-only", hot/all, all); hot < 0.95*all { // not the first of an account
		t.Error("want 0.95 of them")
	}
	t.Logf("a payment takes %d bytes of rows and indexes, and %d of the log", rows, log)
	if rows > mostRows || log > mostLog {
		t.Errorf("want at most %d and %d", mostRows, mostLog)
	}
}

// size returns the bytes of the tables that grow with each payment, and of their indexes.
func size(t *testing.T, pool *pgxpool.Pool, schema string) int64 {
	t.Helper()
	return query[int64](t, pool, `SELECT sum(pg_relation_size(c.oid))::bigint FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'i') AND c.relname ~ 'entries|requests|spends'`, schema)
}

func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
