package migrations

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

func TestUpAndDown(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}

	got, err := CurrentStatus(t.Context(), pool, o)
	if err != nil || !reflect.DeepEqual(got, Status{Latest: latest(t)}) {
		t.Errorf("before the first migration: %+v, %v", got, err)
	}
	if err := Down(t.Context(), pool, o); err != nil {
		t.Errorf("down without tables: %v", err)
	}
	for range 2 { // Down must leave nothing behind that breaks Up
		up(t, pool, o)
		up(t, pool, o)
		if err := Down(t.Context(), pool, o); err != nil {
			t.Fatal(err)
		}
		if n := scalar[int](t, pool, o, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE nspname = {{'schema'}} AND relkind = 'r'`); n != 1 {
			t.Errorf("%d tables after down, want 1, of versions", n)
		}
		if got, err := CurrentStatus(t.Context(), pool, o); err != nil || got.Version != 0 || got.Dirty {
			t.Errorf("after down: %+v, %v", got, err)
		}
		idle(t, pool)
	}
}

// TestDroppedTables drops tables behind the back of the recorded version. Up makes them again,
// unless spends would then be decided without the spends before.
func TestDroppedTables(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t), Table: "Limits"}
	up(t, pool, o)
	for _, table := range []string{"table", "accounts", "entries", "requests", "spends", "holds"} {
		exec(t, pool, o, `DROP TABLE {{schema}}.{{`+table+`}} CASCADE`) // with the view of the entries
		if st, err := CurrentStatus(t.Context(), pool, o); err != nil || len(st.Missing) != 1 || !strings.HasPrefix(st.Missing[0], "Limits") {
			t.Errorf("without %s: %+v, %v", table, st, err)
		}
		up(t, pool, o)
		checkCurrent(t, pool, o)
	}
	exec(t, pool, o, `INSERT INTO {{schema}}.{{holds}} (expires, account, spend) VALUES (now(), 1, 's')`)
	if err := Down(t.Context(), pool, o); err == nil || !strings.Contains(err.Error(), "Options.DropLedger") {
		t.Errorf("down with a hold: %v", err)
	}
	checkCurrent(t, pool, o)
	exec(t, pool, o, `DROP TABLE {{schema}}.{{accounts}} CASCADE`)
	if err := Up(t.Context(), pool, o); err == nil || !strings.Contains(err.Error(), "Limits_accounts") || !strings.Contains(err.Error(), "brim migrate sql") {
		t.Errorf("up without the accounts of a hold: %v", err)
	}
	script, err := SQL(o)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, nil, script)
	checkCurrent(t, pool, o)
	drop := *o
	drop.DropLedger = true
	if err := Down(t.Context(), pool, &drop); err != nil {
		t.Errorf("down that may drop the ledger: %v", err)
	}
	idle(t, pool)
}

func TestUpNeedsOneConnection(t *testing.T) {
	noLeaks(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
	up(t, pool, &Options{Schema: pgtest.Schema(t)})
	// The settings of the session must not get back into the pool.
	for setting, want := range map[string]string{"lock_timeout": "0", "statement_timeout": "0"} {
		if got := scalar[string](t, pool, nil, `SHOW `+setting); got != want {
			t.Errorf("%s of a session of the pool is %s", setting, got)
		}
	}
	if n := scalar[int](t, pool, nil, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`); n != 0 {
		t.Errorf("%d advisory locks remain", n)
	}
}

func TestOddNames(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, name := range []string{
		`UPPER quo"te'd`, `back\slash dollar$brim$`, "ünïcode 桶 {{table}}", "select", `"`,
	} {
		t.Run(name, func(t *testing.T) {
			// The schema keeps the tests apart, and the table begins with the odd name.
			o := &Options{Schema: pgtest.Schema(t) + name, Table: name}
			t.Cleanup(func() {
				if _, err := pool.Exec(context.Background(), names(t, o).Render(`DROP SCHEMA IF EXISTS {{schema}} CASCADE`)); err != nil {
					t.Error(err)
				}
			})
			up(t, pool, o)
			var n int
			const count = `SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename IN ($2, $3)`
			err := pool.QueryRow(t.Context(), count, o.Schema, name, name+"_migrations").Scan(&n)
			if err != nil || n != 2 {
				t.Errorf("%d of 2 tables have the wanted name: %v", n, err)
			}
			if err := Down(t.Context(), pool, o); err != nil {
				t.Fatal(err)
			}
			// For other tools the first statement of the files creates the schema.
			exec(t, pool, o, `DROP SCHEMA {{schema}} CASCADE`)
			script, err := SQL(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), script); err != nil {
				t.Fatal(err)
			}
			checkCurrent(t, pool, o)
		})
	}
}

func TestTwoTablesInOneSchema(t *testing.T) {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	a, b := &Options{Schema: schema, Table: "a"}, &Options{Schema: schema, Table: "b"}
	up(t, pool, a)
	up(t, pool, b)
	if err := Down(t.Context(), pool, a); err != nil {
		t.Fatal(err)
	}
	checkCurrent(t, pool, b)
}

func TestUnlogged(t *testing.T) {
	pool := pgtest.Pool(t)
	for unlogged, want := range map[bool]string{false: "p", true: "u"} {
		o := &Options{Schema: pgtest.Schema(t), Unlogged: unlogged}
		up(t, pool, o)
		if got := scalar[string](t, pool, o, `SELECT relpersistence::text FROM pg_class WHERE oid = '{{schema}}.{{table}}'::regclass`); got != want {
			t.Errorf("unlogged %v: persistence is %q, want %q", unlogged, got, want)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	up(t, pool, o)
	exec(t, pool, o, `UPDATE {{schema}}.{{versions}} SET version = 9999`)

	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := Up(t.Context(), pool, o); err != nil {
		t.Errorf("up: %v: old and new programs share a schema during a rollout", err)
	}
	if !strings.Contains(log.String(), "9999") {
		t.Errorf("the log does not mention the newer schema: %q", log.String())
	}
	if got, err := CurrentStatus(t.Context(), pool, o); err != nil || got.Version != 9999 || got.Latest != latest(t) {
		t.Errorf("status %+v, %v", got, err)
	}
	if err := Down(t.Context(), pool, o); !errors.Is(err, ErrNewer) {
		t.Errorf("down: %v, want ErrNewer", err)
	}
	exec(t, pool, o, `UPDATE {{schema}}.{{versions}} SET dirty = true`)
	if err := Up(t.Context(), pool, o); !errors.Is(err, ErrNewer) {
		t.Errorf("up after a newer migration was cut short: %v, want ErrNewer", err)
	}
	if v := scalar[int](t, pool, o, `SELECT version FROM {{schema}}.{{versions}}`); v != 9999 {
		t.Errorf("version was changed to %d", v)
	}
	idle(t, pool)
}

func TestForeignVersions(t *testing.T) {
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	up(t, pool, o)
	exec(t, pool, o, `UPDATE {{schema}}.{{versions}} SET version = 0`)
	err := Up(t.Context(), pool, o)
	if !errors.Is(err, errForeign) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("up: %v, want an error that names the cause", err)
	}
	idle(t, pool)
}

// A killed run leaves the dirty version that it was going to. Its migration is applied wholly,
// partly or not at all.
func TestKilledRun(t *testing.T) {
	noLeaks(t)
	pool := pgtest.Pool(t)
	none := `TRUNCATE {{schema}}.{{versions}}; INSERT INTO {{schema}}.{{versions}} VALUES (-1, true)`
	first := `TRUNCATE {{schema}}.{{versions}}; INSERT INTO {{schema}}.{{versions}} VALUES (1, true)`
	last := `UPDATE {{schema}}.{{versions}} SET dirty = true`
	cases := []struct{ name, break_ string }{
		{"up, applied", last},
		{"up, half applied", first + `; COMMENT ON COLUMN {{schema}}.{{table}}.key IS NULL`},
		{"up, not applied", first + `; DROP TABLE {{schema}}.{{table}}`},
		{"up, before the version was written", `DROP TABLE {{schema}}.{{versions}}`},
		{"up, schema alone", `DROP TABLE {{schema}}.{{versions}}; DROP TABLE {{schema}}.{{table}}`},
		{"down, applied", none + `; DROP TABLE {{schema}}.{{table}}`},
		{"down, not applied", none},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := &Options{Schema: pgtest.Schema(t)}
			up(t, pool, o)
			exec(t, pool, o, c.break_)
			up(t, pool, o)
			if n := scalar[int](t, pool, o, `SELECT count(*) FROM pg_attribute
				WHERE attrelid = '{{schema}}.{{table}}'::regclass AND attnum > 0 AND col_description(attrelid, attnum) IS NULL`); n != 0 {
				t.Errorf("%d columns without a comment: the migration was not repeated from its start", n)
			}
			exec(t, pool, o, c.break_)
			if err := Down(t.Context(), pool, o); err != nil {
				t.Fatalf("down: %v", err)
			}
			if got, err := CurrentStatus(t.Context(), pool, o); err != nil || got.Version != 0 || got.Dirty {
				t.Errorf("after down: %+v, %v", got, err)
			}
		})
	}
}
