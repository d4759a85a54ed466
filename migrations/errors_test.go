package migrations

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

// newRole makes a role that is dropped at the end of t.
func newRole(t *testing.T, o *Options) (role string) {
	t.Helper()
	role = o.Schema + "_role"
	pgtest.Execute(t, `CREATE ROLE `+role)
	t.Cleanup(func() { pgtest.Execute(t, `DROP OWNED BY `+role+` CASCADE; DROP ROLE `+role) })
	return role
}

func TestMissingPrivileges(t *testing.T) {
	noLeaks(t)
	admin, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	role := newRole(t, o)
	pool := pgtest.PoolAt(t, pgtest.With(t, "role="+role))
	denied := func(when string) {
		t.Helper()
		err := Up(t.Context(), pool, o)
		var pg *pgconn.PgError
		if !errors.Is(err, ErrPrivilege) || !errors.As(err, &pg) || !strings.Contains(err.Error(), "brim migrate sql") {
			t.Errorf("%s: %v, want ErrPrivilege, the error of the server and a way out", when, err)
		}
		if err != nil && strings.Contains(err.Error(), "COMMENT ON") {
			t.Errorf("%s: the error prints the migration", when)
		}
		idle(t, pool)
	}
	denied("no right to create a schema")
	exec(t, admin, o, `CREATE SCHEMA {{schema}}`)
	denied("no right to use the schema")
	exec(t, admin, o, `GRANT USAGE ON SCHEMA {{schema}} TO `+role)
	denied("no right to create tables")
	exec(t, admin, o, `GRANT CREATE ON SCHEMA {{schema}} TO `+role)
	if err := Up(t.Context(), pool, o); err != nil {
		t.Errorf("up with CREATE on an existing schema: %v", err)
	}
	checkCurrent(t, admin, o)
}

// A program that only uses the tables may call Up if there is nothing to do.
func TestUpWithoutRightsIfNothingIsToDo(t *testing.T) {
	admin, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	script, err := SQL(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the script may run again
		exec(t, admin, nil, script)
	}
	checkCurrent(t, admin, o)
	role := newRole(t, o)
	exec(t, admin, o, `GRANT USAGE ON SCHEMA {{schema}} TO `+role+`; GRANT SELECT ON {{schema}}.{{versions}} TO `+role)
	pool := pgtest.PoolAt(t, pgtest.With(t, "default_transaction_read_only=on&role="+role))
	if err := Up(t.Context(), pool, o); err != nil {
		t.Error(err)
	}
	// The script must not make a newer schema look old.
	exec(t, admin, o, `UPDATE {{schema}}.{{versions}} SET version = 9999`)
	exec(t, admin, nil, script)
	if v := scalar[int](t, admin, o, `SELECT max(version) FROM {{schema}}.{{versions}}`); v != 9999 {
		t.Errorf("the script set version %d", v)
	}
}

func TestReadOnlyServer(t *testing.T) {
	noLeaks(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "default_transaction_read_only=on"))
	o := &Options{Schema: pgtest.Schema(t)}
	if err := Up(t.Context(), pool, o); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("up: %v, want ErrReadOnly and a way out", err)
	}
	exec(t, pgtest.Pool(t), o, `CREATE SCHEMA {{schema}}`)
	if err := Up(t.Context(), pool, o); !errors.Is(err, ErrReadOnly) {
		t.Errorf("up with an existing schema: %v, want ErrReadOnly", err)
	}
	idle(t, pool)
	up(t, pgtest.Pool(t), o)
	if err := Down(t.Context(), pool, o); !errors.Is(err, ErrReadOnly) {
		t.Errorf("down: %v, want ErrReadOnly", err)
	}
	idle(t, pool)
}

// The settings of a database or a role must not break a migration.
func TestSessionSettings(t *testing.T) {
	for _, setting := range []string{
		"default_transaction_isolation=serializable", "default_transaction_isolation=repeatable%20read",
		"search_path=nowhere", "standard_conforming_strings=off",
	} {
		t.Run(setting, func(t *testing.T) {
			o := &Options{Schema: pgtest.Schema(t)}
			pool := pgtest.PoolAt(t, pgtest.With(t, setting))
			if err := Up(t.Context(), pool, o); err != nil {
				t.Fatal(err)
			}
			checkCurrent(t, pgtest.Pool(t), o)
		})
	}
}

func TestMigrationsIgnoreTheTimeoutsOfTheRole(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t, "statement_timeout=20s&lock_timeout=0"))
	s, err := openSession(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.prepare(t.Context(), names(t, &Options{LockTimeout: 1500 * time.Millisecond})); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"statement_timeout": "0", "lock_timeout": "1500ms"} {
		var got string
		if err := s.conn.QueryRow(t.Context(), `SHOW `+setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", setting, got, want, err)
		}
	}
}

func TestUnreachableAndClosed(t *testing.T) {
	noLeaks(t)
	pool := pgtest.PoolAt(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	if err := Up(t.Context(), pool, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("up: %v, want ErrUnavailable", err)
	}
	if _, err := CurrentStatus(t.Context(), pool, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("version: %v, want ErrUnavailable", err)
	}
	if err := Up(t.Context(), nil, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("up without a pool: %v, want ErrClosed", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Up(done, pool, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("up with a context that has ended: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, why string
		o         Options
		want      string
	}{
		{"negative timeout", "Up would give up before it asks for the lock", Options{LockTimeout: -time.Second}, "positive"},
		{"reserved", "the server refuses the name", Options{Schema: "pg_brim"}, "pg_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, filesErr := Files(&c.o)
			_, sqlErr := SQL(&c.o)
			for _, err := range []error{Up(t.Context(), nil, &c.o), filesErr, sqlErr} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q: %s", err, c.want, c.why)
				}
			}
		})
	}
}
