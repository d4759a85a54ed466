package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// found returns the findings as "severity subject, severity subject", and checks that each has all
// of its texts.
func found(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	findings, err := postgres.Check(t.Context(), pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range findings {
		if f.Problem == "" || f.Remedy == "" {
			t.Errorf("a text is missing in %+v", f)
		}
		list = append(list, fmt.Sprint(f.Severity, " ", f.Subject))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// TestCheckOfTable puts tables into each state that Check tells.
func TestCheckOfTable(t *testing.T) {
	admin := pgtest.Pool(t)
	for _, c := range []struct{ name, sql, want string }{
		{"sound", "", ""},
		{"dropped", "DROP TABLE %[1]s.buckets", "broken table"},
		{"no column", "ALTER TABLE %[1]s.buckets DROP COLUMN blocked_until", "broken table"},
		{"unlogged", "ALTER TABLE %[1]s.buckets SET UNLOGGED", "broken table"},
		{"no vacuum", "ALTER TABLE %[1]s.buckets SET (autovacuum_enabled = false)", "warning autovacuum"},
		{"old", "UPDATE %[1]s.buckets_migrations SET version = 1", "warning migrations"},
		{"half migrated", "UPDATE %[1]s.buckets_migrations SET dirty = true", "broken migrations"},
		{"no versions", "DROP TABLE %[1]s.buckets_migrations", "unchecked migrations"},
		{"version gone", "DELETE FROM %[1]s.buckets_migrations", "unchecked migrations"},
	} {
		schema := migrated(t, admin)
		if c.sql != "" {
			execute(t, admin, fmt.Sprintf(c.sql, schema))
		}
		if got := found(t, admin, schema); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestCheckOfDeadRows deletes buckets while the vacuum is not allowed to keep up, and then vacuums
// a table that stays large.
func TestCheckOfDeadRows(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	execute(t, admin, "ALTER TABLE "+schema+".buckets SET (autovacuum_vacuum_threshold = 1000000000)")
	execute(t, admin, "INSERT INTO "+schema+`.buckets (level, atime, capacity, leak_rate, key)
		SELECT 1, now(), 1, 0, repeat('k', 100) || n FROM generate_series(1, 60000) AS n`)
	execute(t, admin, "DELETE FROM "+schema+".buckets")
	until(t, "the dead rows to be counted", func() bool { return found(t, admin, schema) == "warning dead rows" })
	// VACUUM keeps the rows that an older transaction may still see. Other tests have such
	// transactions in the same database, so one VACUUM is not always enough.
	until(t, "the vacuum to be counted", func() bool {
		execute(t, admin, "VACUUM "+schema+".buckets")
		return found(t, admin, schema) == "warning bloat"
	})
}

// TestCheckOfRights checks as users who may not do everything.
func TestCheckOfRights(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	role := schema + "_role"
	execute(t, admin, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { execute(t, admin, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	pool := poolAt(t, strings.Replace(pgtest.URL(t), "postgres@", role+"@", 1))
	for _, c := range []struct{ grant, want string }{
		{"", "broken rights, unchecked migrations"},
		{"GRANT USAGE ON SCHEMA " + schema + " TO " + role, "broken rights, unchecked migrations"},
		{"GRANT SELECT, INSERT, UPDATE ON " + schema + ".buckets TO " + role, "broken rights, unchecked migrations"},
		{"GRANT DELETE ON " + schema + ".buckets TO " + role, "unchecked migrations"},
		{"GRANT SELECT ON " + schema + ".buckets_migrations TO " + role, ""},
	} {
		if c.grant != "" {
			execute(t, admin, c.grant)
		}
		if got := found(t, pool, schema); got != c.want {
			t.Errorf("after %q: %s; want %s", c.grant, got, c.want)
		}
	}
}

// TestCheckOfSettings checks sessions and servers with settings that lose fills.
func TestCheckOfSettings(t *testing.T) {
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	schema := migrateOn(t, pool)
	for _, c := range []struct{ setting, want string }{
		{"", ""},
		{"synchronous_commit=off", "broken synchronous_commit"},
		{"synchronous_commit=local", ""}, // without a synchronous replica it is enough
		{"default_transaction_read_only=on", "broken default_transaction_read_only"},
	} {
		if got := found(t, poolAt(t, tune(server.URL(), c.setting)), schema); got != c.want {
			t.Errorf("session with %q: %s; want %s", c.setting, got, c.want)
		}
	}
	for _, c := range []struct{ setting, session, want string }{
		{"fsync=off", "", "broken fsync"},
		{"full_page_writes=off", "", "broken full_page_writes"},
		{"autovacuum=off", "", "warning autovacuum"},
		{"synchronous_standby_names='other'", "synchronous_commit=local", "warning synchronous_commit"},
	} {
		if err := server.Stop(false); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(c.setting); err != nil {
			t.Fatal(err)
		}
		if got := found(t, poolAt(t, tune(server.URL(), c.session)), schema); got != c.want {
			t.Errorf("server with %s: %s; want %s", c.setting, got, c.want)
		}
	}
	// A server that recovers without an end is a standby. This one follows no primary.
	last := poolAt(t, server.URL())
	execute(t, last, "COPY (SELECT '') TO '"+scalar[string](t, last, "SHOW data_directory")+"/standby.signal'")
	if err := server.Stop(false); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if got := found(t, poolAt(t, server.URL()), schema); got != "broken role" {
		t.Errorf("a standby: %s; want broken role", got)
	}
}

// TestCheckOfPooler checks through a pooler in transaction mode.
func TestCheckOfPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") == "" {
		t.Skip("BRIM_TORTURE=1 checks through pgbouncer")
	}
	schema := migrated(t, pgtest.Pool(t))
	url := pooler(t, 0)
	for _, c := range []struct{ setting, want string }{
		{"pool_max_conns=1", "unchecked pooler"}, // first: the next one may meet the statement that this one leaves
		{"pool_max_conns=2", "broken pooler"},
		{"default_query_exec_mode=exec", ""},
	} {
		if got := found(t, poolAt(t, tune(url, c.setting)), schema); got != c.want {
			t.Errorf("%s: %s; want %s", c.setting, got, c.want)
		}
	}
}

func TestCheckFails(t *testing.T) {
	pool := poolAt(t, "postgres://127.0.0.1:1/nowhere")
	if _, err := postgres.Check(t.Context(), pool, nil); !errors.Is(err, store.ErrUnavailable) || !strings.HasPrefix(err.Error(), "postgres: check: ") {
		t.Errorf("no server: %v", err)
	}
	if _, err := postgres.Check(t.Context(), pool, &postgres.Options{Table: "\x00"}); err == nil || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a wrong name: %v", err)
	}
	if _, err := postgres.Check(t.Context(), nil, nil); err == nil {
		t.Error("no pool: no error")
	}
}
