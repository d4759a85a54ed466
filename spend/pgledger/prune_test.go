package pgledger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/ledger"
)

// TestPruneBesideCallers prunes 100 old entries and IDs of each of 50 accounts, or with
// BRIM_TORTURE=1 of each of 10,000, while callers decide on other accounts. None of their decisions
// fails. The entries are in a plain table, or go with their partition. The log of the test has the
// figures of docs/ledger-upkeep.md.
func TestPruneBesideCallers(t *testing.T) {
	t.Run("plain", func(t *testing.T) { pruneBesideCallers(t, false) })
	t.Run("partitions", func(t *testing.T) { pruneBesideCallers(t, true) })
}

func pruneBesideCallers(t *testing.T, byTime bool) {
	const each = 100
	accounts := seed.Attempts(50, 10_000)
	pool := pgtest.Pool(t)
	schema := migrated(t)
	if byTime {
		ranged(t, pool, schema, time.Now().AddDate(0, 0, -100).Format(time.DateOnly))
	}
	var ago atomic.Int64
	ago.Store(int64(200 * 24 * time.Hour))
	l := over(t, pool, &postgres.Options{Schema: schema, Clock: func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }})
	budget := func(name string) *spend.Budgets {
		return budgetOf(t, l, name, spend.Rolling("rolling", eur(1<<40), 30*24*time.Hour), spend.PerTransaction("single", eur(1<<30)))
	}
	old, busy := budget("old"), budget("busy")
	for i := range each {
		charge(t, old, "0", fmt.Sprintf("%032x", i))
	}
	if byTime {
		partition(t, pool, schema)
	}
	pgtest.Execute(t, fmt.Sprintf(`
		INSERT INTO %[1]s.buckets_accounts (key, due, rules, watch, state)
			SELECT 'old/' || i, due, rules, watch, state FROM %[1]s.buckets_accounts CROSS JOIN generate_series(1, %[2]d - 1) AS i`, schema, accounts))
	reseal(t, pool, schema+".buckets_accounts", "key LIKE 'old/%'")
	for i := range each { // a statement has a minute
		pgtest.Execute(t, fmt.Sprintf(`
		INSERT INTO %[1]s.buckets_entries (account, at, seq, used, currency, kind, spends, id)
			SELECT a.id, at, seq, used, currency, kind, spends, decode(md5(a.key || seq), 'hex')
			FROM %[1]s.buckets_entries AS e CROSS JOIN %[1]s.buckets_accounts AS a
			WHERE e.seq = %[2]d AND e.account = (SELECT id FROM %[1]s.buckets_accounts WHERE key = 'old/0') AND a.key <> 'old/0';
		INSERT INTO %[1]s.buckets_requests (id, at, account, content, answer, spend)
			SELECT decode(md5(a.key || r.at), 'hex'), at, a.id, content, answer, spend
			FROM %[1]s.buckets_requests AS r CROSS JOIN %[1]s.buckets_accounts AS a
			WHERE r.id = decode('00' || '%032[3]x', 'hex') AND a.key <> 'old/0'`, schema, 1+i, i))
	}
	for _, table := range []string{"accounts", "entries", "requests"} { // or the first read of a row would write
		pgtest.Execute(t, "VACUUM ANALYZE "+schema+".buckets_"+table)
	}
	pgtest.Execute(t, "CHECKPOINT")
	ago.Store(0)
	var mu sync.Mutex
	var took []time.Duration
	// decide has 16 callers decide until the function says that it is enough, and returns their
	// figures.
	decide := func(enough func(n int) bool) string {
		took = nil
		start := time.Now()
		var calls sync.WaitGroup
		for c := range 16 {
			calls.Go(func() {
				for i := 0; !enough(i); i++ {
					start := time.Now()
					d, err := busy.Charge(context.Background(), spend.Request{ID: fmt.Sprint(start, c), Account: fmt.Sprint(c), Amount: eur(1)})
					if err != nil || !d.Approved {
						t.Error(d, err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(start))
					mu.Unlock()
				}
			})
		}
		calls.Wait()
		rate := float64(len(took)) / time.Since(start).Seconds()
		slices.Sort(took)
		return fmt.Sprintf("%.0f decisions/s, p50 %v, p99 %v, at most %v", rate, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	}
	before := decide(func(n int) bool { return n == seed.Attempts(20, 200) })
	from := query[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
	var ended atomic.Bool
	var during string
	var beside sync.WaitGroup
	beside.Go(func() { during = decide(func(n int) bool { return n > 0 && ended.Load() }) })
	start := time.Now()
	done, err := old.Prune(t.Context())
	if pruned := time.Since(start); byTime {
		if done := partition(t, pool, schema); len(done.Dropped) != 1 {
			t.Errorf("Partition: %+v", done)
		}
		t.Logf("Prune took %v, and Partition %v", pruned, time.Since(start)-pruned)
	}
	ended.Store(true)
	lasted := time.Since(start)
	log := query[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint", from)
	beside.Wait()
	t.Logf("Prune of %d entries and as many IDs took %v; %d MB of the log with those of the callers, who made %s, and before %s",
		accounts*each, lasted, log>>20, during, before)
	if left := query[int](t, pool, fmt.Sprintf(`SELECT count(*) FROM %[1]s.buckets_entries AS e JOIN %[1]s.buckets_accounts AS a ON a.id = e.account
		WHERE a.key ~ '^old/'`, schema)); err != nil || done.Requests != int64(accounts*each) || left != 0 {
		t.Errorf("Prune: %+v, %v; %d entries are left", done, err, left)
	}
	start = time.Now()
	if done, err := old.Prune(t.Context()); err != nil || done != (spend.PruneResult{}) {
		t.Errorf("Prune with nothing to do: %+v, %v", done, err)
	}
	t.Logf("Prune of %d accounts with nothing to do took %v", accounts, time.Since(start))
}

// TestPruneWithNothingDue prunes 20,000 accounts, or with BRIM_TORTURE=1 10^6, of which none is
// due, beside those of another budget, which all are. It reads next to no page, and writes and
// locks no row. Then 100 accounts are due, and Prune writes to these alone. The server is one of
// its own, whose counters and log have nothing else.
func TestPruneWithNothingDue(t *testing.T) {
	t.Parallel()
	const due, piece = 100, 20_000
	accounts := seed.Attempts(piece, 50*piece)
	server := pgtest.NewServer(t, "full_page_writes=off")
	admin, table := server.Pool(t), pgname.DefaultSchema+".buckets_accounts"
	if err := migrations.Up(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	// Sessions of such pools tell their counters when they end.
	measured := func() *pgxpool.Pool { return pgtest.PoolAt(t, server.URL()+"&application_name=measured") }
	// prune prunes, and then authorizes, in sessions of its own.
	prune := func(ids ...string) (done spend.PruneResult, took time.Duration) {
		t.Helper()
		pool := measured()
		b := budgetOf(t, over(t, pool, nil), "cards",
			spend.Rolling("rolling", eur(1<<40), 30*24*time.Hour), spend.PerTransaction("single", eur(1<<30)))
		start := time.Now()
		done, err := b.Prune(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		took = time.Since(start)
		for _, id := range ids {
			if d, err := b.Authorize(t.Context(), spend.Request{ID: id, Account: "0", Amount: eur(1)}); err != nil || !d.Approved {
				t.Fatal(d, err)
			}
		}
		pool.Close()
		return done, took
	}
	prune("open", "kept")
	fill := measured()
	run(t, fill, "ALTER SYSTEM SET autovacuum = off")
	for n := 0; n < accounts; n += piece {
		run(t, fill, fmt.Sprintf(`INSERT INTO %[1]s (key, due, rules, watch, state, holds)
			SELECT budget || '/' || i, CASE budget WHEN 'others' THEN now() ELSE due END, rules, watch, state, holds
			FROM %[1]s CROSS JOIN generate_series(%[2]d, %[2]d + %[3]d - 1) AS i CROSS JOIN unnest('{cards,others}'::text[]) AS budget
			WHERE key = 'cards/0'`, table, n+1, piece))
	}
	reseal(t, fill, table, "true")
	for _, sql := range []string{"SELECT pg_reload_conf()", "VACUUM ANALYZE " + table, "CHECKPOINT"} {
		run(t, fill, sql)
	}
	fill.Close()
	counters := func() (pages, changed int64, log string) {
		t.Helper()
		pgtest.Reported(t, admin, "measured")
		if err := admin.QueryRow(t.Context(), `SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit, n_tup_upd, pg_current_wal_insert_lsn()::text
			FROM pg_statio_user_tables JOIN pg_stat_user_tables USING (relid) WHERE relid = $1::regclass`, table).Scan(&pages, &changed, &log); err != nil {
			t.Fatal(err)
		}
		return pages, changed, log
	}
	all := query[int64](t, admin, "SELECT pg_table_size($1::regclass) / 8192", table)
	pages, changed, log := counters()
	done, took := prune()
	pagesAfter, changedAfter, logAfter := counters()
	wrote := query[int64](t, admin, "SELECT ($1::text::pg_lsn - $2::text::pg_lsn)::bigint", logAfter, log)
	t.Logf("Prune of %d accounts with nothing due took %v, read %d of %d pages, changed %d rows and wrote %d bytes of the log",
		accounts, took, pagesAfter-pages, all, changedAfter-changed, wrote)
	if pagesAfter-pages > all/100 || changedAfter != changed || wrote > 1000 || done != (spend.PruneResult{}) {
		t.Errorf("%+v; want at most %d pages, no row and next to no log", done, all/100)
	}
	other := measured()
	run(t, other, fmt.Sprintf(`UPDATE %[1]s SET due = now() WHERE id IN
		(SELECT id FROM %[1]s WHERE key LIKE 'cards/%%' ORDER BY id OFFSET 1000 LIMIT %[2]d)`, table, due))
	reseal(t, other, table, "key LIKE 'cards/%' AND due <= now()")
	other.Close()
	_, changed, _ = counters()
	prune()
	if _, changedAfter, _ = counters(); changedAfter-changed != due {
		t.Errorf("Prune has changed %d rows with %d due accounts", changedAfter-changed, due)
	}
	left := query[int](t, admin, "SELECT count(*) FROM "+table+" WHERE key LIKE 'cards/%' AND (due IS NULL OR due <= now())")
	if others := query[int](t, admin, "SELECT count(*) FROM "+table+" WHERE key LIKE 'others/%' AND due <= now()"); others != accounts || left != 0 {
		t.Errorf("%d accounts are due after Prune, and %d of the other budget; want 0 and %d", left, others, accounts)
	}
}

// reseal gives the accounts of some rows, which statements have made or changed, states with a
// checksum that is right.
func reseal(t *testing.T, pool *pgxpool.Pool, table, where string) {
	t.Helper()
	for after := int64(0); ; {
		rows, err := pool.Query(t.Context(), fmt.Sprintf(`
			SELECT id, key, COALESCE((extract(epoch FROM pruned) * 1000000)::bigint, 0), COALESCE((extract(epoch FROM due) * 1000000)::bigint, 0), rules, state
			FROM %s WHERE id > $1 AND %s ORDER BY id LIMIT 10000`, table, where), after)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		var states [][]byte
		for rows.Next() {
			var a ledger.Account
			if err := rows.Scan(&after, &a.Key, &a.Pruned, &a.Due, &a.Rules, &a.State); err != nil {
				t.Fatal(err)
			}
			ids, states = append(ids, after), append(states, decide.Resealed(a).State)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			return
		}
		if _, err := pool.Exec(t.Context(), fmt.Sprintf(
			"UPDATE %s AS a SET state = u.state FROM unnest($1::bigint[], $2::bytea[]) AS u(id, state) WHERE a.id = u.id", table), ids, states); err != nil {
			t.Fatal(err)
		}
	}
}
