package pgledger_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
)

// TestBytesOfPayment sees that a card payment, authorized and captured, and charged to a card and
// to an account under three rules each, takes the bytes that docs/internals/ledger.md tells, and
// that updates of accounts are heap-only. The server is one of its own, since other tests would
// write to the log meanwhile. The least of three measurements counts: the server writes to it as
// well.
func TestBytesOfPayment(t *testing.T) {
	payments := seed.Attempts(800, 20_000)
	// Accounts of the night have some hundred entries, and their pages of indexes have split in
	// halves.
	const fresh, old, log, crowded = 1.35, 1.6, 3.0, 3.7 // KB
	night := payments == 20_000
	total := map[bool]float64{false: fresh * 1000, true: old * 1000}[night]
	server, schema := pgtest.NewServer(t), pgname.DefaultSchema
	// Inserts that wait for each other have the server add twenty pages for each of them.
	pool := pgtest.PoolAt(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	if err := migrations.Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	rules := []spend.Rule{
		spend.Rolling("rolling", eur(1<<40), 30*24*time.Hour), spend.Calendar("month", eur(1<<40), spend.Month, time.UTC),
		spend.PerTransaction("single", eur(1<<30)),
	}
	b, err := spend.New(t.Context(), over(t, pool, &postgres.Options{Schema: schema}), spend.Budget{Name: "cards", Currency: "EUR", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	n := 0
	pay := func(name string, cards, teams int) {
		var wg sync.WaitGroup
		for i := range 16 {
			first := n + i
			wg.Go(func() {
				for p := first; p < first+payments; p += 16 {
					r := spend.Request{
						ID: fmt.Sprintf("%012x%020x", time.Now().UnixMilli(), p), Amount: eur(int64(100 + p%10_000)),
						Account: fmt.Sprint(name, p%cards), Also: []spend.Account{{Budget: "teams", Name: fmt.Sprint(name, p%teams)}},
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
	// logs returns the bytes of the log that a payment of some accounts takes.
	logs := func(name string, cards, teams int) int64 {
		least := int64(1 << 40)
		for range 3 {
			run(t, pool, "CHECKPOINT")
			pay(name, cards, teams) // the first change of a page after a checkpoint logs all of it
			from := query[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
			pay(name, cards, teams)
			least = min(least, query[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint", from)/int64(payments))
		}
		return least
	}
	pay("card:", 400, 100)
	start, first := sizes(t, pool, schema), n
	logged := logs("card:", 400, 100)
	took, all := make(map[string]float64), 0.0
	paid := float64(n - first)
	for name, size := range sizes(t, pool, schema) {
		took[name] = float64(size-start[name]) / paid
		all += took[name]
	}
	hold(t, b, "crowded:", 64, 32)
	besideHolds := logs("crowded:", 64, 32)
	pool.Close() // the server counts at the latest when a session ends
	last := server.Pool(t)
	updates := query[float64](t, last, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'buckets_accounts'")
	hot := query[float64](t, last, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'buckets_accounts'")
	if t.Logf("%.3f of %.0f updates of accounts are heap-only", hot/updates, updates); hot < 0.95*updates { // not the first of an account
		t.Error("want 0.95 of them")
	}
	// near fails if a figure differs from that of the page by more than a share and ten pages of
	// the table: the server adds several at once.
	near := func(what string, got, page, share float64) {
		t.Helper()
		t.Logf("%s: %.0f bytes a payment", what, got)
		if math.Abs(got-page) > share*page+10*8192/paid {
			t.Errorf("%s: %.0f bytes a payment; docs/internals/ledger.md tells %.0f", what, got, page)
		}
	}
	const page = "../../docs/internals/ledger.md"
	told := func(row string, cell int) float64 {
		figures, err := docpage.Figures(page, row, cell)
		if err != nil {
			t.Fatal(err)
		}
		return figures[0]
	}
	tables := 0.0
	for row, names := range map[string][]string{
		"`entries`": {"entries"}, "`requests`": {"requests"}, "`spends`": {"spends"},
		"`entries_pkey`: account, at, seq": {"entries_pkey"}, "`entries_dated`: account, dated, seq of corrections": {"entries_dated"},
		"`requests_pkey`, `spends_pkey`: id": {"requests_pkey", "spends_pkey"},
	} {
		tables += told(row, 2)
		got := 0.0
		for _, name := range names {
			got += took["buckets_"+name]
		}
		if night || !strings.Contains(row, ":") { // pages of indexes have not split yet
			near(row, got, told(row, 2), 0.1)
		}
	}
	near("rows and indexes", all, total, 0.12)
	near("the log", float64(logged), log*1000, 0.1) // a slow machine puts fewer payments into a commit
	near("the log, beside 40 open holds", float64(besideHolds), crowded*1000, 0.1)
	written := 0.0
	for _, row := range []string{
		"seven rows", "four new versions of accounts", "nine entries of indexes, and pages that split",
		"locks of four accounts and a request", "page cleaning, commits, alignment of records",
	} {
		written += told(row, 1)
	}
	lacks := docpage.Lacks(page,
		fmt.Sprintf("A payment takes %.2f KB of rows and indexes while accounts are new, and %.1f KB when 500 accounts have 140,000 payments", fresh, tables/1000),
		fmt.Sprintf("It takes %.1f to 3.1 KB of WAL", written/1000),
		fmt.Sprintf("It takes %.1f KB on accounts with 40 open holds each", crowded))
	if lacks != "" {
		t.Error(lacks)
	}
}

// hold opens 40 holds on each of some cards and teams. They end four hours apart.
func hold(t *testing.T, cards *spend.Budgets, name string, some, few int) {
	t.Helper()
	teams, err := cards.ForBudget(t.Context(), "teams")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := 1; i <= 40; i++ {
		wg.Go(func() {
			for a := range some + few {
				b, account := cards, a
				if a >= some {
					b, account = teams, a-some
				}
				r := spend.Request{
					ID: fmt.Sprintf("%012xh%09x%010x", time.Now().UnixMilli(), i, a), Account: fmt.Sprint(name, account), Amount: eur(1),
					TTL: time.Duration(i) * 4 * time.Hour,
				}
				if d, err := b.Authorize(t.Context(), r); err != nil || !d.Approved {
					t.Error(d, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// sizes returns the bytes of the tables that grow with each payment, and of their indexes.
func sizes(t *testing.T, pool *pgxpool.Pool, schema string) map[string]int64 {
	t.Helper()
	return query[map[string]int64](t, pool, `SELECT jsonb_object_agg(c.relname, pg_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'i') AND c.relname ~ 'entries|requests|spends'`, schema)
}

func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
