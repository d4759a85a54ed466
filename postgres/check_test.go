package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// found returns the findings as "severity subject, severity subject", and checks that each has all
// of its texts.
func found(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	list := make([]string, 0)
	for _, f := range findings(t, pool, schema) {
		list = append(list, fmt.Sprint(f.Severity, " ", f.Subject))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func findings(t *testing.T, pool *pgxpool.Pool, schema string) []store.Finding {
	t.Helper()
	list, err := postgres.Check(t.Context(), pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Problem == "" || f.Remedy == "" {
			t.Errorf("a text is missing in %+v", f)
		}
	}
	if strings.HasPrefix(schema, "test_") { // other tests have transactions on the same server
		list = slices.DeleteFunc(list, func(f store.Finding) bool { return f.Subject == "old transaction" })
	}
	return list
}

// mend runs the commands in the remedies of all findings, and fails the test unless a check then
// finds nothing.
func mend(t *testing.T, admin *pgxpool.Pool, pool func() *pgxpool.Pool, schema string) {
	t.Helper()
	for _, f := range findings(t, pool(), schema) {
		pgtest.Mend(t, admin, f.Remedy, func() error {
			return migrations.Up(t.Context(), admin, &migrations.Options{Schema: schema})
		})
	}
	if got := found(t, pool(), schema); got != "" {
		t.Errorf("after the remedies: %s", got)
	}
}

// TestCheckFindsAndMends makes each fault of the tables, and runs the commands of the remedy.
func TestCheckFindsAndMends(t *testing.T) {
	t.Parallel()
	admin := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_role"
	execute(t, admin, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { execute(t, admin, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	app := func() *pgxpool.Pool {
		return pgtest.PoolAt(t, strings.Replace(pgtest.URL(t), "postgres@", role+"@", 1))
	}
	buckets := schema + ".buckets"
	trigger := func(name, body string) string {
		return fmt.Sprintf(`CREATE FUNCTION %[1]s.%[2]s() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN %[3]s; END';
			CREATE TRIGGER %[2]s BEFORE INSERT OR UPDATE ON %[1]s.buckets FOR EACH ROW EXECUTE FUNCTION %[1]s.%[2]s()`, schema, name, body)
	}
	for _, c := range []struct{ name, sql, want string }{
		{"no right at all", "", "broken rights, unchecked migrations"}, // the remedies are for the later cases, too
		{"no use of the schema", "REVOKE USAGE ON SCHEMA " + schema + " FROM " + role, "broken rights, unchecked migrations"},
		{"no DELETE", "REVOKE DELETE ON " + buckets + " FROM " + role, "broken rights"},
		{"no UPDATE, no SELECT", "REVOKE UPDATE, SELECT ON " + buckets + " FROM " + role, "broken rights"},
		{"no version", "REVOKE SELECT ON " + buckets + "_migrations FROM " + role, "unchecked migrations"},
		{"row security", "ALTER TABLE " + buckets + " ENABLE ROW LEVEL SECURITY", "broken row security"},
		{"row security that hides rows", "ALTER TABLE " + buckets + " ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON " + buckets +
			" USING (level = 0) WITH CHECK (true)", "broken row security"},
		{"row security that hides read rows", "DROP POLICY mine ON " + buckets + "; ALTER TABLE " + buckets + " ENABLE ROW LEVEL SECURITY; " +
			"CREATE POLICY all_rows ON " + buckets + " USING (true); CREATE POLICY held ON " + buckets + " AS RESTRICTIVE USING (held = 0)", "broken row security"},
		{"no primary key", "ALTER TABLE " + buckets + " DROP CONSTRAINT buckets_pkey", "broken key"},
		{"a trigger that changes rows", trigger("changes", "NEW.level := 0; RETURN NEW"), "broken triggers"},
		{"a trigger that drops rows", trigger("drops", "RETURN NULL"), "broken triggers"},
		{"a trigger that fails", trigger("fails", "RAISE EXCEPTION ''no''"), "broken triggers"},
		{"a trigger that changes nothing", trigger("audits", "RETURN NEW"), ""},
		{"unlogged", "ALTER TABLE " + buckets + " SET UNLOGGED", "broken table"},
		{"no vacuum", "ALTER TABLE " + buckets + " SET (autovacuum_enabled = false)", "warning autovacuum"},
		{"old", "UPDATE " + buckets + "_migrations SET version = 1", "warning migrations"},
		{"half migrated", "UPDATE " + buckets + "_migrations SET dirty = true", "broken migrations"},
		{"read-only", "ALTER ROLE " + role + " SET default_transaction_read_only = on", "broken default_transaction_read_only"},
		{"commits that do not wait", "ALTER ROLE " + role + " SET synchronous_commit = off", "broken synchronous_commit"},
	} {
		if c.sql != "" {
			execute(t, admin, c.sql)
		}
		if got := found(t, app(), schema); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		mend(t, admin, app, schema)
	}
	// The new table belongs to the administrator, and the application has no right on it.
	execute(t, admin, "DROP TABLE "+buckets)
	if got := found(t, admin, schema); got != "broken table" {
		t.Errorf("dropped: %s", got)
	}
	mend(t, admin, func() *pgxpool.Pool { return admin }, schema)
	mend(t, admin, app, schema)
	// No command brings these back.
	for _, c := range []struct{ name, sql, want string }{
		{"a newer migration that was cut short", "UPDATE " + buckets + "_migrations SET version = 3, dirty = true", "broken migrations"},
		{"version gone", "DELETE FROM " + buckets + "_migrations", "unchecked migrations"},
		{"no versions", "DROP TABLE " + buckets + "_migrations", "unchecked migrations"},
		{"no column", "ALTER TABLE " + buckets + " DROP COLUMN blocked_until", "broken table, unchecked migrations"},
		{"distributed", "CREATE FUNCTION " + schema + ".citus_truncate_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER " +
			"truncate_trigger AFTER TRUNCATE ON " + buckets + " EXECUTE FUNCTION " + schema + ".citus_truncate_trigger()", "broken Citus, unchecked migrations"},
	} {
		execute(t, admin, c.sql)
		if got := found(t, admin, schema); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestCheckOfDeadRows deletes buckets while the vacuum is not allowed to keep up, and then vacuums
// a table that stays large.
func TestCheckOfDeadRows(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
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

// TestCheckOfSettings checks sessions and servers with settings that lose fills.
func TestCheckOfSettings(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	schema := migrateOn(t, pool)
	for _, c := range []struct{ setting, want string }{
		{"", ""},
		{"synchronous_commit=off", "broken synchronous_commit"},
		{"synchronous_commit=local", ""}, // without a synchronous replica it is enough
		{"default_transaction_read_only=on", "broken default_transaction_read_only"},
		{"search_path=public,pg_catalog", "broken search_path"},
		{"search_path=public", ""},
	} {
		if got := found(t, pgtest.PoolAt(t, tune(server.URL(), c.setting)), schema); got != c.want {
			t.Errorf("session with %q: %s; want %s", c.setting, got, c.want)
		}
	}
	for _, c := range []struct{ setting, want string }{
		{"fsync = off", "broken fsync"},
		{"full_page_writes = off", "broken full_page_writes"},
		{"autovacuum = off", "warning autovacuum"},
	} {
		execute(t, pool, "ALTER SYSTEM SET "+c.setting)
		execute(t, pool, "SELECT pg_reload_conf()")
		until(t, "the setting", func() bool { return found(t, pool, schema) == c.want })
		for _, f := range findings(t, pool, schema) {
			pgtest.Mend(t, pool, f.Remedy, nil)
		}
		until(t, "the remedy", func() bool { return found(t, pool, schema) == "" })
	}
}

// TestCheckOfPooler checks through a pooler in transaction mode.
func TestCheckOfPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") == "" {
		t.Skip("BRIM_TORTURE=1 checks through pgbouncer")
	}
	schema := migrated(t)
	url := pgtest.Pooler(t, "transaction", 0)
	for _, c := range []struct{ setting, want string }{
		{"pool_max_conns=1", "unchecked pooler"}, // first: the next one may meet the statement that this one leaves
		{"pool_max_conns=2", "broken pooler"},
		{"default_query_exec_mode=exec", ""},
	} {
		if got := found(t, pgtest.PoolAt(t, tune(url, c.setting)), schema); got != c.want {
			t.Errorf("%s: %s; want %s", c.setting, got, c.want)
		}
	}
}

// TestCheckWritesNothing checks with the options of a store that prunes all the time.
func TestCheckWritesNothing(t *testing.T) {
	clock := newHandClock()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	leaky := store.Limit{Capacity: 1, LeakRate: 1}
	fill(t, over(t, pool, postgres.Options{Schema: schema, Clock: clock.now}), op(leaky.For("empty"), 1, store.IfFits))
	clock.advance(24 * time.Hour)
	o := postgres.Options{Schema: schema, Clock: clock.now, PruneEvery: time.Nanosecond}
	for range 10 { // a prune that began would not always end before Check does
		if _, err := postgres.Check(t.Context(), pool, &o); err != nil {
			t.Fatal(err)
		}
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)); n != 1 {
		t.Errorf("%d rows are left of 1", n)
	}
}

// TestCheckSeesPooler checks through a proxy that, like a pooler, tells its clients other process
// IDs than those of the server. Behind a pooler in transaction mode, a client loses its prepared
// statements when a second connection begins.
func TestCheckSeesPooler(t *testing.T) {
	schema := migrated(t)
	usual := found(t, pgtest.Pool(t), schema)
	p, err := wire.New(pgtest.URL(t), func(_ *wire.Link, d wire.Direction, piece []byte) wire.Fate {
		const backendKeyData = "K\x00\x00\x00\x0c"
		if at := bytes.Index(piece, []byte(backendKeyData)); d == wire.ToClient && piece[0] == 'R' && at > 0 {
			piece[at+len(backendKeyData)] ^= 1 // the proxy sends what is in the piece afterwards
		}
		return wire.Pass(piece)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	through := func(setting string, afterConnect func(context.Context, *pgx.Conn) error) *pgxpool.Pool {
		return pgtest.PoolAt(t, tune(p.URL(), setting), func(c *pgxpool.Config) { c.AfterConnect = afterConnect })
	}
	for _, c := range []struct {
		setting string
		forgets bool
		want    string
	}{
		{"pool_max_conns=2", true, "broken pooler"},
		{"pool_max_conns=3", true, "broken pooler"},
		{"pool_max_conns=1", true, "unchecked pooler"},
		{"pool_max_conns=2", false, ""},
		{"default_query_exec_mode=cache_describe", true, "broken pooler"},
		{"default_query_exec_mode=describe_exec", true, "broken pooler"},
		{"default_query_exec_mode=exec", true, ""},
		{"default_query_exec_mode=simple_protocol", true, ""},
	} {
		var first *pgx.Conn
		pool := through(c.setting, func(ctx context.Context, conn *pgx.Conn) error {
			if first == nil {
				first = conn
			}
			if first == conn || !c.forgets {
				return nil
			}
			return first.PgConn().Exec(ctx, "DEALLOCATE ALL").Close()
		})
		want := c.want
		if usual != "" { // the shared server may have findings of its own
			want = strings.Trim(usual+", "+c.want, ", ")
		}
		if got := found(t, pool, schema); got != want {
			t.Errorf("%s, forgets %v: %s; want %s", c.setting, c.forgets, got, want)
		}
		if n := pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%s: Check has kept %d connections", c.setting, n)
		}
		pool.Close()
	}

	// The pooler gives out one connection only.
	var connections atomic.Int32
	pool := through("pool_max_conns=2", func(context.Context, *pgx.Conn) error {
		if connections.Add(1) > 1 {
			return errors.New("no second connection")
		}
		return nil
	})
	if findings, err := postgres.Check(t.Context(), pool, &postgres.Options{Schema: schema}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a second connection: %v, %v; want no answer", findings, err)
	}
}

func TestCheckFails(t *testing.T) {
	pool := pgtest.PoolAt(t, "postgres://127.0.0.1:1/nowhere")
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

// TestCheckNoFalseAlarm checks a healthy server again and again, in two places at once, while
// others fill buckets.
func TestCheckNoFalseAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewServer(t).Pool(t) // other tests have long transactions on the shared one
	schema := migrateOn(t, pool)
	s := over(t, pool, postgres.Options{Schema: schema})
	stop := online(t, s)
	var checks sync.WaitGroup
	for range 2 {
		checks.Go(func() {
			for range seed.Attempts(10, 500) {
				if got, err := postgres.Check(t.Context(), pool, &postgres.Options{Schema: schema}); err != nil || len(got) > 0 {
					t.Errorf("%v, %v", got, err)
					return
				}
			}
		})
	}
	checks.Wait()
	stop()
	if left := list(t, s, "brim.check/"); len(left) > 0 {
		t.Errorf("the checks have left %+v", left)
	}
}
