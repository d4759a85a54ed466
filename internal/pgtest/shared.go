package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Variables of the environment.
const (
	envURL   = "BRIM_TEST_POSTGRES"       // a server to use instead of starting one
	envCount = "BRIM_TEST_POSTGRES_COUNT" // a file to which every test that uses PostgreSQL adds a line
)

// shared is the server of this test binary. Tests have nothing else in common that could hold it.
var shared struct {
	sync.Mutex
	started bool
	url     string
	err     error
	server  *Server         // nil where the server was there already
	tests   map[string]bool // names of those that used a PostgreSQL, of their own too
}

// Main is a TestMain: it runs the tests, stops the server that they shared, says how many used it, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for those who have more to do before they exit with the code that it returns.
func Run(m *testing.M) (code int) {
	code = m.Run()
	shared.Lock()
	defer shared.Unlock()
	if len(shared.tests) > 0 {
		fmt.Printf("pgtest: %d tests used PostgreSQL\n", len(shared.tests))
	}
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// URL returns the shared server's URL, and starts it if this is the first to ask. The server is the same for all tests, which
// may run at the same time: each keeps to schemas of its own.
func URL(t testing.TB) string {
	t.Helper()
	count(t)
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

// Pool returns a pool of connections to the shared server, closed at the end of t.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return newPool(t, URL(t))
}

// Schema returns the name of a schema that nobody else uses. It does not exist yet, and is dropped with all that is in it at
// the end of t.
func Schema(t testing.TB) string {
	t.Helper()
	url, name := URL(t), "test_"+strings.ToLower(rand.Text())
	t.Cleanup(func() {
		// The test's pool may be closed by now.
		pool, err := pgxpool.New(context.Background(), url)
		if err != nil {
			t.Errorf("pgtest: %v", err)
			return
		}
		defer pool.Close()
		if _, err := pool.Exec(context.Background(), `DROP SCHEMA IF EXISTS `+name+` CASCADE`); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return name
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// count notes that t uses a PostgreSQL.
func count(t testing.TB) {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.tests[t.Name()] {
		return
	}
	if shared.tests == nil {
		shared.tests = map[string]bool{}
	}
	shared.tests[t.Name()] = true
	path := os.Getenv(envCount)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("pgtest: %s: %v", envCount, err)
	}
	// One write, so that lines of several processes do not mix.
	_, err = f.WriteString(t.Name() + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatalf("pgtest: %s: %v", envCount, err)
	}
}
