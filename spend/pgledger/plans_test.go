package pgledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// TestPlansOutliveGrowth has a connection plan every statement while the tables are empty, and
// fills the tables. The statements must go on to read by index: the tables count the rows that
// plans read. The server is one of its own: while another test holds a snapshot, a scan reads every
// version of a row.
func TestPlansOutliveGrowth(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	// A table that was never analyzed looks larger than one that was analyzed while empty.
	t.Run("auto, never analyzed", func(t *testing.T) { growUnderPlans(t, server, "never", "auto", "SELECT") })
	for _, plans := range []string{"auto", "force_generic_plan", "force_custom_plan"} {
		t.Run(plans+", analyzed while empty", func(t *testing.T) {
			growUnderPlans(t, server, "empty_"+plans, plans, "ANALYZE @")
		})
	}
}

func growUnderPlans(t *testing.T, server *pgtest.Server, schema, plans, state string) {
	const rows = 30_000
	ctx := context.Background()
	admin := server.Pool(t)
	if err := migrations.Up(ctx, admin, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	tables := []string{"accounts", "entries", "requests", "spends", "holds", "rules"}
	for _, name := range tables {
		run(t, admin, "ALTER TABLE "+schema+".buckets_"+name+" SET (autovacuum_enabled = false)")
		run(t, admin, strings.ReplaceAll(state, "@", schema+".buckets_"+name))
	}
	pool, compiled := server.Planned(t, schema, "plan_cache_mode="+plans)
	l := over(t, pool, &postgres.Options{Schema: schema})
	for n := range 7 { // the server takes a plan for all parameters from the sixth time on
		everyStatement(t, l, pool, fmt.Sprint("before", n))
	}
	for _, sql := range []string{
		"accounts (key, due) SELECT 'x/' || i, now()",
		"entries (at, dated, seq, part, used, currency, kind, account, id) " +
			"SELECT clock_timestamp(), CASE i % 2 WHEN 0 THEN clock_timestamp() END, i, i - i % 2, 1, 'EUR', 1, 1000000 + i, int8send(i)",
		"requests (at, account, content, answer, id) SELECT clock_timestamp(), 1000000 + i, '', '', int8send(i)",
		"spends (id, spend) SELECT int8send(i), ''",
		"holds (expires, account, spend) SELECT clock_timestamp() + interval '1 day', 1000000 + i, int8send(i)",
		`rules (budget, seq, revision, at, held, "by", reason, digest, rules) ` +
			"SELECT CASE i % 2 WHEN 0 THEN 'teams' ELSE 'b' || i END, 100 + i / 2, i, now(), false, '', '', '', ''",
	} {
		run(t, admin, fmt.Sprintf("INSERT INTO %s.buckets_%s FROM generate_series(1, %d) AS i", schema, sql, rows))
	}
	const times = 3
	for n := range times {
		everyStatement(t, l, pool, fmt.Sprint("after", n))
	}
	pool.Close() // the server counts at the latest when a session ends
	if plans := compiled(); len(plans) > 0 {
		t.Errorf("the server compiled %d plans, and so took longer than to run them; the first is %s", len(plans), plans[0])
	}
	pgtest.Reported(t, admin, schema)
	for _, name := range tables {
		var seq, index int
		if err := admin.QueryRow(ctx, `SELECT t.seq_tup_read, sum(i.idx_tup_read)::int
			FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid)
			WHERE t.schemaname = $1 AND t.relname = $2 GROUP BY 1`, schema, "buckets_"+name).Scan(&seq, &index); err != nil {
			t.Fatal(err)
		}
		most := 2000
		if name == "requests" {
			most += times * 2 * (rows + 200) // PruneRequests reads all of them, twice in each round
		}
		if seq > most || index > 5000 {
			t.Errorf("%s: %d rows were read without an index and %d by index, of a table of %d; want at most %d and 5000",
				name, seq, index, rows, most)
		}
	}
}

// everyStatement makes calls that send every statement of the ledger.
func everyStatement(t *testing.T, l *pgledger.Ledger, pool *pgxpool.Pool, id string) {
	t.Helper()
	ctx := t.Context()
	calls := func(l ledger.Ledger, id string) {
		t.Helper()
		b, err := spend.New(ctx, l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
			spend.Lifetime("ever", euros(1_000_000)), spend.Rolling("brief", euros(1_000_000), time.Millisecond),
		}}, nil)
		must := func(d spend.Decision, err error) {
			t.Helper()
			if err != nil || !d.Approved {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		must(b.Charge(ctx, spend.Request{ID: id, Account: "7", Amount: euros(2)}))
		must(b.Refund(ctx, spend.RefundRequest{ID: id + "r", SpendID: id, Amount: euros(1)}))
		must(b.Authorize(ctx, spend.Request{ID: id + "a", Account: "7", Amount: euros(2)}))
		must(b.Capture(ctx, spend.CaptureRequest{ID: id + "c", HoldID: id + "a", Amount: euros(1)}))
		must(b.Authorize(ctx, spend.Request{ID: id + "v", Account: "7", Amount: euros(2), TTL: time.Millisecond}))
		if _, err := b.Remaining(ctx, "7"); err != nil {
			t.Fatal(err)
		}
		if err := b.Verify(ctx, "7"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.History(ctx, "cards/7", ledger.Position{}, 5); err != nil {
			t.Fatal(err)
		}
		if err := l.Decide(ctx, spendload.Revised("teams", id)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Revisions(ctx, "teams", 0, 5); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Accounts(ctx, "cards/", "", 0, 5); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Accounts(ctx, "cards/", "", time.Now().UnixMicro(), 5); err != nil {
			t.Fatal(err)
		}
		if _, err := l.PruneRequests(ctx, "nobody/", time.Now().Add(time.Hour).UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	calls(l, id)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	calls(l.With(tx), id+"tx")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}
