package postgres_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// calls returns one call of every kind. Each needs the server.
func calls(s store.Store, b store.Bucket) map[string]func(context.Context) error {
	fill := func(op store.Op) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Fill(ctx, op); return err }
	}
	return map[string]func(context.Context) error{
		"try":     fill(op(b, 1, store.IfFits)),
		"fillup":  fill(op(b, 1, store.Clamp)),
		"drain":   fill(op(b, -1, store.Always)),
		"hold":    fill(store.Op{Bucket: b, Hold: 1}),
		"nothing": fill(op(b, 0, store.IfFits)),
		"ask":     fill(op(b, 1, store.Ask)),
		"ask for several": func(ctx context.Context) error {
			_, err := s.Apply(ctx, store.Txn{op(b, 1, store.Ask), op(b, 1, store.Ask)})
			return err
		},
		"block":   fill(store.Op{Bucket: b.For(b.Key + " blocked"), BlockFor: time.Hour, Mode: store.Block}),
		"unblock": fill(store.Op{Bucket: store.Bucket{Key: b.Key}, Mode: store.Unblock}),
		"apply": func(ctx context.Context) error {
			_, err := s.Apply(ctx, store.Txn{op(b, 1, store.IfFits), op(b, 1, store.IfFits)})
			return err
		},
		"read":   func(ctx context.Context) error { _, err := s.Read(ctx, b); return err },
		"visit":  func(ctx context.Context) error { return s.Visit(ctx, "", func(store.Entry) bool { return true }) },
		"delete": func(ctx context.Context) error { return s.Delete(ctx, b.Key) },
		"prune":  func(ctx context.Context) error { _, err := s.Prune(ctx); return err },
	}
}

// writes are the calls that a read-only server or user refuses.
var writes = []string{"try", "fillup", "drain", "hold", "apply", "block", "delete", "prune"}

// looks are the calls that write nothing, here.
var looks = []string{"nothing", "read", "visit", "ask", "ask for several", "unblock"}

// clientAuth replaces the server's pg_hba.conf by lines that come before a line that admits
// everybody.
func clientAuth(t *testing.T, server *pgtest.Server, line string) {
	t.Helper()
	pool := server.Pool(t)
	file := scalar[string](t, pool, "SHOW hba_file")
	execute(t, pool, "COPY (SELECT unnest(ARRAY['"+line+"', 'host all all all trust'])) TO '"+file+"'")
	execute(t, pool, "SELECT pg_reload_conf()")
	until(t, "the server to read its configuration", func() bool {
		return scalar[int](t, pool, "SELECT count(*) FROM pg_hba_file_rules WHERE error IS NULL AND auth_method = 'scram-sha-256'") == 1
	})
}

// TestClasses makes calls that cannot work, by each fault for real. Every call must fail with the
// class of the fault and name the way out, and no error may contain the key. The other faults have
// tests of their own: TestReadOnly, TestRowHeldForTooLong, TestOneBadCallFailsAlone.
func TestClasses(t *testing.T) {
	leakFree(t)
	server := pgtest.NewServer(t)
	admin := server.Pool(t)
	migrateOn(t, admin)
	migrateTo(t, admin, "locked")
	migrateTo(t, admin, "older")
	for _, sql := range []string{
		"CREATE ROLE limited LOGIN PASSWORD 'right'",
		"CREATE ROLE stranger LOGIN",
		"CREATE ROLE reader LOGIN",
		"GRANT USAGE ON SCHEMA brim TO reader",
		"GRANT SELECT ON brim.buckets TO reader",
		"CREATE ROLE crowded LOGIN CONNECTION LIMIT 0",
		"CREATE ROLE secured LOGIN",
		"GRANT USAGE ON SCHEMA locked TO secured",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locked.buckets TO secured",
		"CREATE ROLE foreigner LOGIN",
		"ALTER ROLE foreigner SET client_encoding = LATIN1",
		"ALTER TABLE older.buckets DROP COLUMN blocked_until",
		"CREATE SCHEMA bare",
		"CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0",
	} {
		execute(t, admin, sql)
	}
	clientAuth(t, server, "host all limited all scram-sha-256")
	as := func(user, password, database string) string {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, password)
		u.Path = "/" + database
		return u.String()
	}
	tls := func(mode string) string { return strings.Replace(server.URL(), "sslmode=disable", "sslmode="+mode, 1) }
	const passes, ours = "passes", "ours"
	everything := append(slices.Clone(looks), writes...)
	for _, c := range []struct {
		name, url, schema string
		calls             []string
		class             string
		words             []string
	}{
		{"nobody listens", "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable", "", everything, passes, []string{"127.0.0.1", "connect"}},
		{"no such host", "postgres://postgres@nowhere.invalid/postgres?sslmode=disable", "", everything, passes, []string{"nowhere.invalid"}},
		{"wrong password", as("limited", "wrong", "postgres"), "", everything, ours, []string{"28P01", "limited", "check the user and the password"}},
		{"unknown user", as("nobody", "", "postgres"), "", everything, ours, []string{"28000", "nobody", "check the user"}},
		{"unknown database", as("postgres", "", "elsewhere"), "", everything, ours, []string{"3D000", "elsewhere"}},
		{"too many connections", as("crowded", "", "postgres"), "", everything, passes, []string{"53300", "pool"}},
		{"a server without TLS", tls("require"), "", everything, ours, []string{"refused TLS"}},
		{"a server without TLS, verified", tls("verify-full"), "", everything, ours, []string{"refused TLS"}},
		{"no schema", server.URL(), "missing", everything, ours, []string{"missing", `run "brim migrate up"`}},
		{"no table", server.URL(), "bare", everything, ours, []string{"bare", `run "brim migrate up"`}},
		{"no column", server.URL(), "older", everything, ours, []string{"42703", `run "brim migrate up"`}},
		{"no privilege at all", as("stranger", "", "postgres"), "", everything, ours, []string{"42501", "brim", "grant"}},
		{"no privilege to write", as("reader", "", "postgres"), "", writes, ours, []string{"42501", "buckets", "grant"}},
		{"LATIN1 in the connection string", tune(server.URL(), "client_encoding=LATIN1"), "", everything, ours, []string{"client_encoding", "LATIN1"}},
		{"LATIN1 of the role", as("foreigner", "", "postgres"), "", everything, ours, []string{"client_encoding", `ALTER ROLE "foreigner" SET`}},
		{"SQL_ASCII", tune(server.URL(), "client_encoding=SQL_ASCII"), "", everything, ours, []string{"client_encoding", "SQL_ASCII"}},
		{"a database of LATIN1", as("postgres", "", "latin"), "", everything, ours, []string{"server_encoding", "LATIN1"}},
		{"a schema before pg_catalog", tune(server.URL(), "search_path=bare,pg_catalog"), "", everything, ours, []string{"search_path", `"bare"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			class := map[string]error{passes: store.ErrUnavailable, ours: store.ErrMisconfigured}[c.class]
			pool := pgtest.PoolAt(t, c.url)
			s := over(t, pool, postgres.Options{Schema: c.schema})
			all := calls(s, steady.For(secret))
			for _, name := range c.calls {
				if name == "prune" && slices.Contains([]string{"no privilege to write", "no column"}, c.name) || name == "delete" && c.name == "no column" {
					continue // the table has no pages yet; a delete needs the key alone
				}
				t.Run(name, func(t *testing.T) { wantError(t, all[name](t.Context()), class, c.words...) })
			}
			if n := pool.Stat().AcquiredConns(); n != 0 {
				until(t, "all connections given back", func() bool { return pool.Stat().AcquiredConns() == 0 })
			}
		})
	}
	execute(t, admin, "ALTER TABLE locked.buckets ENABLE ROW LEVEL SECURITY")
	all := calls(over(t, pgtest.PoolAt(t, as("secured", "", "postgres")), postgres.Options{Schema: "locked"}), steady.For(secret))
	for _, name := range []string{"try", "fillup", "hold", "apply", "block"} {
		t.Run("row security/"+name, func(t *testing.T) { wantError(t, all[name](t.Context()), store.ErrMisconfigured, "42501", "BYPASSRLS") })
	}
	// With the right password, the role gets an error that names the privilege it lacks.
	pool := pgtest.PoolAt(t, as("limited", "right", "postgres"))
	wantError(t, calls(over(t, pool, postgres.Options{}), steady.For(secret))["try"](t.Context()), store.ErrMisconfigured, "42501")
	clean(t, pool)
	pool.Close()
	closed := calls(over(t, pool, postgres.Options{}), steady.For(secret))
	for _, name := range everything {
		t.Run("closed pool/"+name, func(t *testing.T) {
			wantError(t, closed[name](t.Context()), store.ErrMisconfigured, "the pool is closed")
		})
	}
	if n := scalar[int](t, admin, "SELECT count(*) FROM brim.buckets"); n != 0 {
		t.Errorf("%d rows were written by calls that failed", n)
	}
	// The mend counts for connections that the pool makes from then on; it has closed the others.
	pool = pgtest.PoolAt(t, as("foreigner", "", "postgres"))
	execute(t, admin, "GRANT USAGE ON SCHEMA brim TO foreigner; GRANT ALL ON brim.buckets TO foreigner")
	s := over(t, pool, postgres.Options{})
	_, err := s.Fill(t.Context(), op(steady.For(secret), 1, store.IfFits))
	wantError(t, err, store.ErrMisconfigured, "LATIN1")
	pgtest.Mend(t, admin, err.Error(), nil)
	levelIs(t, s, secret, 0)
}

// TestReadOnly calls a read-only server. It refuses every call that may write, also one that
// the limit would refuse. The store drops the connection: it will not become writable, and the
// next may lead to another server.
func TestReadOnly(t *testing.T) {
	pids := func(t *testing.T, url string, class error) {
		t.Helper()
		pool := pgtest.PoolAt(t, tune(url, "pool_max_conns=1"))
		s := over(t, pool, postgres.Options{})
		all := calls(s, steady.For(secret))
		for _, name := range writes {
			t.Run(name, func(t *testing.T) {
				pid := scalar[int](t, pool, "SELECT pg_backend_pid()")
				wantError(t, all[name](t.Context()), class, "25006", "primary", "target_session_attrs=read-write")
				if scalar[int](t, pool, "SELECT pg_backend_pid()") == pid {
					t.Error("the connection was kept")
				}
			})
		}
		for _, name := range looks {
			if err := all[name](t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		clean(t, pool)
	}
	leakFree(t)
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	schema := migrateOn(t, pool)
	s := over(t, pool, postgres.Options{})
	fill(t, s, op(steady.For(secret), 1, store.Clamp))

	t.Run("by setting", func(t *testing.T) {
		pids(t, tune(server.URL(), "default_transaction_read_only=on"), store.ErrMisconfigured)
	})

	// A server that recovers without an end is a standby. This one follows no primary.
	execute(t, pool, "COPY (SELECT '') TO '"+scalar[string](t, pool, "SHOW data_directory")+"/standby.signal'")
	if err := server.Stop(false); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the pool to find the server again", func() bool { _, err := s.Read(t.Context(), steady.For(secret)); return err == nil })
	t.Run("standby", func(t *testing.T) { pids(t, server.URL(), store.ErrUnavailable) })
	t.Run("standby, in a transaction", func(t *testing.T) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, tx, false)
		_, err = s.With(tx).Fill(t.Context(), op(steady.For(secret), 1, store.Clamp))
		wantError(t, err, store.ErrUnavailable, "25006")
	})
	for _, attrs := range []string{"read-write", "primary"} {
		t.Run("no "+attrs+" server", func(t *testing.T) {
			s := over(t, pgtest.PoolAt(t, tune(server.URL(), "target_session_attrs="+attrs)), postgres.Options{})
			_, err := s.Read(t.Context(), steady.For(secret))
			wantError(t, err, store.ErrUnavailable, "ValidateConnect")
		})
	}
	if got := found(t, pool, schema); got != "broken role" {
		t.Errorf("the check of a standby: %s; want broken role", got)
	}

	_, err := s.Fill(t.Context(), op(steady.For(secret), 1, store.Clamp))
	wantError(t, err, store.ErrUnavailable, "25006", "primary")
	if !scalar[bool](t, pool, "SELECT pg_promote()") {
		t.Fatal("the standby was not promoted")
	}
	if st := fill(t, s, op(steady.For(secret), 1, store.Clamp)); st.Level != 2 {
		t.Errorf("after the promotion: %+v; want level 2", st)
	}
}
