package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Environment variables.
const (
	envURL  = "BRIM_TEST_POSTGRES"      // the URL of a server to use instead of starting one
	envData = "BRIM_TEST_POSTGRES_DATA" // data of a new server, which others may start from a copy of
)

// shared holds the server of this test binary. It is global because tests share nothing else.
var shared struct {
	sync.Mutex
	started bool
	url     string
	err     error
	server  *Server // nil if BRIM_TEST_POSTGRES names the server
}

// admin is one connection for the schemas of all tests: to open another costs a server more than to
// make brim's tables.
var admin struct {
	sync.Mutex
	conn *pgx.Conn // nil before the first use
}

// Tests are the tests of a binary: a [*testing.M], or something around one.
type Tests interface{ Run() int }

// Main is a TestMain. It runs the tests, stops the shared server and exits.
func Main(m Tests) { os.Exit(Run(m)) }

// Run does the work of Main and returns the exit code, for a TestMain that has more to do.
func Run(m Tests) (code int) {
	code = m.Run()
	Disconnect()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Disconnect closes the connection for the schemas of all tests; the next use opens another. After
// a slow write, pgx leaves a goroutine with an idle connection, which a search for leaks would
// find.
func Disconnect() {
	admin.Lock()
	defer admin.Unlock()
	if admin.conn != nil {
		_ = admin.conn.Close(context.Background())
	}
}

// URL returns the shared server's URL. The first call starts the server. Tests that run at the same
// time share it, so each must keep to its own schemas. With -short, nothing starts a server, and t
// is skipped unless BRIM_TEST_POSTGRES names one.
func URL(t testing.TB) string {
	t.Helper()
	if os.Getenv(envURL) == "" {
		skipShort(t)
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		shared.started = true
		if shared.url = os.Getenv(envURL); shared.url == "" {
			if shared.server, shared.err = Launch(); shared.err == nil {
				shared.url = shared.server.URL()
			}
		}
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.url
}

// Pool returns a pool of connections to the shared server and closes it at the end of t.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return PoolAt(t, URL(t))
}

// Schema returns the name of a schema that no other test uses. The caller creates the schema. At
// the end of t, Schema drops it with its content.
func Schema(t testing.TB) string {
	t.Helper()
	url, name := URL(t), "test_"+strings.ToLower(rand.Text())
	t.Cleanup(func() {
		if err := execute(url, "DROP SCHEMA IF EXISTS "+name+" CASCADE", patience(t)); err != nil {
			t.Errorf("pgtest: dropping the schema: %v", err)
		}
	})
	return name
}

// Execute runs statements without arguments on the shared server as its superuser.
func Execute(t testing.TB, sql string) {
	t.Helper()
	if err := execute(URL(t), sql, time.Minute); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

func execute(url, sql string, bound time.Duration) error {
	admin.Lock()
	defer admin.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if admin.conn == nil || admin.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		admin.conn = conn
	}
	_, err := admin.conn.Exec(ctx, sql)
	return err
}

// PoolAt returns a pool of connections to the server at url, and closes it at the end of t. The
// functions may change the configuration.
func PoolAt(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	for _, f := range change {
		f(config)
	}
	sessions := track(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { sessions.close(t, pool, patience(t)) })
	return pool
}

// skipShort skips t with -short.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("pgtest: -short leaves out the tests that start a PostgreSQL")
	}
}
