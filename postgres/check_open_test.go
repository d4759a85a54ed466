package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// openSession opens a transaction of somebody else, and runs a statement in it.
func openSession(t *testing.T, url string, statements ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // a remedy ends it before
	for _, sql := range append([]string{"BEGIN"}, statements...) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// TestCheckOfOpenTransactions lets strangers hold rows and transaction ids, finds them with and
// without the right to see their statements, and runs the remedies.
func TestCheckOfOpenTransactions(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, "max_prepared_transactions = 5")
	admin := server.Pool(t)
	schema := migrateOn(t, admin)
	fill(t, over(t, admin, postgres.Options{Schema: schema}), op(store.Limit{Capacity: 10}.For("held"), 1, store.IfFits))
	execute(t, admin, "CREATE ROLE app LOGIN; CREATE ROLE etl LOGIN SUPERUSER")
	execute(t, admin, "CREATE DATABASE other")
	execute(t, admin, "GRANT USAGE ON SCHEMA brim TO app; GRANT ALL ON ALL TABLES IN SCHEMA brim TO app")
	as := func(user, database string) string {
		url := strings.Replace(server.URL(), "postgres@", user+"@", 1)
		return strings.Replace(url, "/postgres?", "/"+database+"?", 1)
	}
	const lock, id = "SELECT FROM brim.buckets FOR UPDATE", "SELECT pg_current_xact_id()"
	for _, c := range []struct {
		name    string
		begin   func(t *testing.T) (pid uint32)
		subject string
		problem []string // with pg_read_all_stats
	}{
		{
			"idle with a row", func(t *testing.T) uint32 { return openSession(t, as("etl", "postgres"), lock).PgConn().PID() },
			"held rows",
			[]string{"of user etl in database postgres, idle in transaction, open for ", lock},
		},
		{"active with a row", func(t *testing.T) uint32 {
			conn := openSession(t, as("etl", "postgres"), lock)
			pid := conn.PgConn().PID()
			ctx, cancel := context.WithCancel(context.Background())
			var asleep sync.WaitGroup
			asleep.Go(func() { _, _ = conn.Exec(ctx, "SELECT pg_sleep(600)") }) // until the remedy ends it
			t.Cleanup(func() { cancel(); asleep.Wait() })
			return pid
		}, "held rows", []string{", active, open for ", "SELECT pg_sleep(600)"}},
		{"prepared with a row", func(t *testing.T) uint32 {
			openSession(t, as("etl", "postgres"), lock, "PREPARE TRANSACTION 'the ''first'''")
			return 0
		}, "held rows", []string{"prepared transaction 'the ''first'''", ", prepared, open for "}},
		{
			"idle with an id", func(t *testing.T) uint32 { return openSession(t, as("etl", "postgres"), id).PgConn().PID() },
			"old transaction",
			[]string{"idle in transaction, open for ", id},
		},
		{
			"idle with an id in another database", func(t *testing.T) uint32 { return openSession(t, as("etl", "other"), id).PgConn().PID() },
			"old transaction",
			[]string{"in database other, idle in transaction"},
		},
		{"prepared with an id", func(t *testing.T) uint32 {
			openSession(t, as("etl", "postgres"), id, "PREPARE TRANSACTION 'second'")
			return 0
		}, "old transaction", []string{"prepared transaction 'second'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid := c.begin(t)
			all := []string{"transaction id "}
			if pid != 0 {
				all = append(all, fmt.Sprintf("the session with the pid %d, ", pid))
			}
			began := time.Now()
			hidden := onlyFinding(t, pgtest.PoolAt(t, as("app", "postgres")), c.subject)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("found after %v", took)
			}
			for _, text := range all {
				if !strings.Contains(hidden.Problem, text) {
					t.Errorf("without a right: %q is not in %q", text, hidden.Problem)
				}
			}
			if grants := strings.Contains(hidden.Remedy, "`GRANT pg_read_all_stats TO app`"); grants != (pid != 0) {
				t.Errorf("without a right: %+v", hidden)
			}
			shown := onlyFinding(t, pgtest.PoolAt(t, as("etl", "postgres")), c.subject)
			for _, text := range append(all, c.problem...) {
				if !strings.Contains(shown.Problem, text) {
					t.Errorf("%q is not in %q", text, shown.Problem)
				}
			}
			pgtest.Mend(t, admin, hidden.Remedy, nil)
			if got := found(t, admin, schema); got != "" {
				t.Errorf("after the remedy: %s", got)
			}
			execute(t, admin, "REVOKE pg_read_all_stats FROM app")
		})
	}
}

// onlyFinding waits until a check has one finding, of the given subject.
func onlyFinding(t *testing.T, pool *pgxpool.Pool, subject string) (f store.Finding) {
	t.Helper()
	until(t, subject, func() bool {
		all := findings(t, pool, "brim")
		if len(all) > 0 {
			f = all[0]
		}
		return len(all) == 1 && f.Subject == subject && f.Severity == store.Warning
	})
	return f
}

// TestCheckAfterBurst checks right after a burst, whose dead rows no vacuum has seen yet.
func TestCheckAfterBurst(t *testing.T) {
	server := pgtest.NewServer(t, "autovacuum_naptime = 1d")
	admin := server.Pool(t)
	schema := migrateOn(t, admin)
	execute(t, admin, "INSERT INTO "+schema+`.buckets (level, atime, capacity, leak_rate, key)
		SELECT 1, now(), 1, 0, repeat('k', 100) || n FROM generate_series(1, 30000) AS n`)
	execute(t, admin, "DELETE FROM "+schema+".buckets")
	until(t, "the dead rows to be counted", func() bool {
		return scalar[int64](t, admin, "SELECT pg_stat_get_dead_tuples('brim.buckets'::regclass)") == 30_000
	})
	if got := found(t, admin, schema); got != "" {
		t.Errorf("right after a burst: %s", got)
	}
	conn := openSession(t, server.URL(), "SELECT pg_current_xact_id()")
	until(t, "the transaction to be old", func() bool {
		return found(t, admin, schema) == "warning dead rows, warning old transaction"
	})
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "no finding", func() bool { return found(t, admin, schema) == "" })
}
