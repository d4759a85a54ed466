package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// pooler runs a pgbouncer in transaction mode before the shared server. It returns a connection
// string that leads through the pooler.
func pooler(t *testing.T, prepared int) string { return poolerInMode(t, "transaction", prepared) }

func poolerInMode(t *testing.T, mode string, prepared int) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Fatal(`BRIM_TORTURE=1 needs pgbouncer: "apt-get install pgbouncer"`)
	}
	version, err := exec.Command(bin, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(version), "PgBouncer %d.%d", &major, &minor); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	knows := major > 1 || minor >= 21 // of prepared statements; from 1.24 on it keeps 200 unless told
	if prepared > 0 && !knows {
		t.Skipf("prepared statements need pgbouncer 1.21 or later, and this is %d.%d: install it from apt.postgresql.org", major, minor)
	}
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "brim-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=%s port=%s dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 4
max_client_conn = 200
`, u.Hostname(), u.Port(), port, mode)
	if knows {
		text += fmt.Sprintf("max_prepared_statements = %d\n", prepared)
	}
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--quiet", conf)
	if err := pgtest.Unprivileged(cmd, dir); err != nil { // pgbouncer refuses to run as root
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	through := fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port)
	until(t, "pgbouncer to answer", func() bool {
		conn, err := pgx.Connect(t.Context(), through)
		return err == nil && conn.Close(context.Background()) == nil
	})
	return through
}

// TestTransactionPooler makes all calls through a pooler in transaction mode. Each statement
// may reach another session of the server, so no statement may need a setting of the one
// before.
func TestTransactionPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		return // pgbouncer is not installed on every machine
	}
	for _, c := range []struct {
		name     string
		prepared int
		settings []string
	}{
		{"with prepared statements", 200, nil},
		{"without prepared statements", 0, []string{"default_query_exec_mode=exec"}},
		{"without prepared statements, describing each", 0, []string{"default_query_exec_mode=cache_describe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := poolAt(t, tune(pooler(t, c.prepared), append(c.settings, "pool_max_conns=16")...))
			schema := migrated(t, pgtest.Pool(t))
			everything(t, over(t, pool, postgres.Options{Schema: schema, Lanes: 4}))
			everythingElse := over(t, pool, postgres.Options{Schema: schema})
			if err := everythingElse.Delete(t.Context(), "hot", "held", "one", "two", "key 3"); err != nil {
				t.Error(err)
			}
			clean(t, pool)
			if n := scalar[int](t, pgtest.Pool(t), "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND application_name = ''"); n != 0 {
				t.Errorf("%d sessions were left in a transaction", n)
			}
		})
	}
}

// TestStatementPooler calls through a pooler in statement mode, which ends a connection as soon as a
// transaction stays open. Nothing is applied, and the error names the setting.
func TestStatementPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		return // pgbouncer is not installed on every machine
	}
	schema := migrated(t, pgtest.Pool(t))
	s := over(t, poolAt(t, tune(poolerInMode(t, "statement", 0), "default_query_exec_mode=exec")), postgres.Options{Schema: schema})
	b := steady.For("k")
	for _, call := range []string{"hold", "apply", "block"} {
		wantError(t, calls(s, b)[call](t.Context()), store.ErrUnavailable, "set pool_mode to transaction")
	}
	err := s.Update(t.Context(), func(in store.Store) error { _, err := in.Fill(t.Context(), op(b, 1, store.Clamp)); return err })
	wantError(t, err, store.ErrUnavailable, "set pool_mode to transaction")
	direct := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	if st := stateOf(t, direct, b.Key); st.Level != 0 || st.Held != 0 {
		t.Errorf("refused calls have left %+v", st)
	}
}
