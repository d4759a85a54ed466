package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/supervisor"
)

// Pooler runs a PgBouncer before the shared server until the end of t, and returns a connection
// string that leads through it. The pool mode is "transaction" or "statement". The pooler keeps so
// many prepared statements of each connection. It reaches the server over 4 connections.
func Pooler(t testing.TB, mode string, prepared int) string {
	t.Helper()
	bin, err := supervisor.Find(os.Stderr, "pgbouncer", "pgbouncer")
	if err != nil {
		t.Fatalf("this test needs PgBouncer: %v", err)
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
	u, err := url.Parse(URL(t))
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
ignore_startup_parameters = synchronous_commit
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
	if err := Unprivileged(cmd, dir); err != nil { // pgbouncer refuses to run as root
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := ping(through); err == nil {
			return through
		} else if time.Now().After(deadline) {
			t.Fatalf("PgBouncer does not answer: %v", err)
		}
	}
}
