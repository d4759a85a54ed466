package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestPlansOutliveGrowth has a connection plan every statement while the table is empty, and fills
// the table. The statements must go on to read by index: the table counts the rows that plans read.
// The server is one of its own: while another test holds a snapshot, a scan reads every version of
// a row.
func TestPlansOutliveGrowth(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	const (
		never   = "SELECT" // such a table looks larger than one that was analyzed while empty
		empty   = "ANALYZE @"
		emptied = "INSERT INTO @ (level, atime, capacity, leak_rate, key) " +
			"SELECT 0, clock_timestamp(), 1, 0, i FROM generate_series(1, 2000) AS i; DELETE FROM @; VACUUM ANALYZE @"
	)
	for i, c := range []struct {
		mode, plans string
		state       string // of the table when the statements are planned
		rows        int
	}{
		{"cache_statement", "auto", never, 30_000},
		{"cache_statement", "auto", empty, seed.Attempts(30_000, 1_000_000)},
		{"cache_statement", "auto", emptied, 30_000},
		{"cache_statement", "force_generic_plan", empty, 30_000},
		{"cache_statement", "force_custom_plan", empty, 30_000},
		{"cache_describe", "auto", empty, 30_000},
		{"exec", "auto", empty, 30_000},
	} {
		t.Run(fmt.Sprint(c.mode, ", ", c.plans, ", ", c.state), func(t *testing.T) {
			t.Parallel()
			settings := "plan_cache_mode=" + c.plans + "&default_query_exec_mode=" + c.mode
			growUnderPlans(t, server, fmt.Sprint("case", i), settings, c.state, c.rows)
		})
	}
}

func growUnderPlans(t *testing.T, server *pgtest.Server, schema, settings, state string, rows int) {
	ctx := context.Background()
	admin := server.Pool(t)
	if err := migrations.Up(ctx, admin, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	table := schema + ".buckets"
	run := func(sql string) {
		t.Helper()
		for _, sql := range strings.Split(strings.ReplaceAll(sql, "@", table), ";") {
			if _, err := admin.Exec(ctx, sql); err != nil {
				t.Fatalf("%v, for %s", err, sql)
			}
		}
	}
	run("ALTER TABLE @ SET (autovacuum_enabled = false); " + state)

	pool, compiled := server.Planned(t, schema, settings)
	s, err := New(pool, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	for range 7 { // the server takes a plan for all parameters from the sixth time on
		everyStatement(t, s, pool)
	}
	run(fmt.Sprintf("INSERT INTO @ (level, atime, capacity, leak_rate, key) "+
		"SELECT 0, clock_timestamp(), 1, 0, 'row' || i FROM generate_series(1, %d) AS i", rows))
	before := s.generation.Load()
	for deadline := time.Now().Add(30 * time.Second); s.generation.Load() == before; time.Sleep(5 * time.Millisecond) {
		// A call without a statement.
		if err := s.run.Look(ctx, "look", func(context.Context, *pgxpool.Conn) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the store has not noticed that the table has grown")
		}
	}
	const times = 3
	for range times {
		everyStatement(t, s, pool)
	}
	if _, err := s.Prune(ctx); err != nil {
		t.Fatal(err)
	}
	pool.Close() // the server counts at the latest when a session ends
	if plans := compiled(); len(plans) > 0 {
		t.Errorf("the server compiled %d plans, and so took longer than to run them; the first is %s", len(plans), plans[0])
	}
	pgtest.Reported(t, admin, schema)
	var seq, index int
	if err := admin.QueryRow(ctx, `SELECT seq_tup_read, idx_tup_read
		FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid)
		WHERE t.schemaname = $1 AND t.relname = 'buckets'`, schema).Scan(&seq, &index); err != nil || index == 0 {
		t.Fatalf("no counts: %v", err)
	}
	// Prune reads each row once. Scan returns some rows by index.
	most := rows + 4100
	if seq > most || index > 5000 {
		t.Errorf("%d rows were read by number and %d by index in %d calls of each kind, of a table of %d; want at most %d and 5000",
			seq, index, times, rows, most)
	}
}

// everyStatement sends each statement that looks for rows.
func everyStatement(t *testing.T, s *Store, pool *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	request := func(key string) *fillRequest {
		return &fillRequest{In: store.Op{Bucket: store.Limit{Capacity: 1000, LeakRate: 1}.For(key), Amount: 1}}
	}
	one := []group{{reqs: []*fillRequest{request("a")}}}
	several := []group{{reqs: []*fillRequest{request("a"), request("a")}}, {reqs: []*fillRequest{request("b")}}}
	for _, groups := range [][]group{one, several} {
		for _, reach := range []reach{alone, asking, whole} {
			if _, err := s.send(ctx, pool, groups, reach, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	calls := func(s store.Store) {
		t.Helper()
		a, b := request("a").In.Bucket, request("b").In.Bucket
		_, err := s.Fill(ctx, request("a").In)
		if err == nil {
			_, err = s.Apply(ctx, store.Txn{request("a").In, request("b").In}, store.Txn{{Bucket: b, Hold: 1}})
		}
		if err == nil {
			_, err = s.Read(ctx, a)
		}
		if err == nil {
			_, err = s.Read(ctx, a, b)
		}
		if err == nil {
			err = s.Visit(ctx, "a", func(store.Entry) bool { return true })
		}
		if err == nil {
			err = s.Delete(ctx, "b")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	calls(s)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	calls(s.With(tx))
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}
