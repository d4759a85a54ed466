package httplimit_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestMain runs the tests, or, if strictChild is set, the server of TestStrictKilled.
func TestMain(m *testing.M) {
	if args := os.Getenv(strictChild); args != "" {
		fmt.Println("error:", serveLogins(args))
		os.Exit(1)
	}
	code := pgtest.Run(redistest.With(m))
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// tens is the limit of a bucket that holds 10 units and leaks one per second.
var tens = brim.Limit{Capacity: 10, LeakRate: 1}

func newManual() *brimtest.Clock {
	return brimtest.NewClock(time.Date(2024, 2, 29, 23, 59, 50, 0, time.UTC))
}

// inMemory returns a Limiter over an empty store, and its clock.
func inMemory(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
	t.Helper()
	clock := newManual()
	s := memory.New(&memory.Options{Clock: clock.Now})
	return brim.New(s, nil), clock
}

// opener returns a Limiter over an empty store, and its clock.
type opener func(testing.TB) (*brim.Limiter, *brimtest.Clock)

// onEachBackend runs a test over a store of each backend.
func onEachBackend(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, inMemory) })
	t.Run("bolt", func(t *testing.T) {
		test(t, func(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
			t.Helper()
			clock := newManual()
			return over[*bolt.Store](t, clock)(bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Clock: clock.Now}))
		})
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, func(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
			t.Helper()
			clock, schema := newManual(), pgtest.Schema(t)
			script, err := migrations.SQL(&migrations.Options{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Execute(t, script)
			o := &postgres.Options{Schema: schema, Clock: clock.Now, StatementTimeout: time.Minute}
			return over[*postgres.Store](t, clock)(postgres.New(pgtest.Pool(t), o))
		})
	})
	t.Run("redis", func(t *testing.T) {
		test(t, func(t testing.TB) (*brim.Limiter, *brimtest.Clock) {
			t.Helper()
			clock := newManual()
			return brim.New(buckets.Open(t, clock.Now), nil), clock
		})
	})
}

// over returns a function that makes a Limiter over a store that was opened.
func over[S store.Store](t testing.TB, clock *brimtest.Clock) func(S, error) (*brim.Limiter, *brimtest.Clock) {
	return func(s S, err error) (*brim.Limiter, *brimtest.Clock) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return brim.New(s, nil), clock
	}
}

// onRealClock returns a Limiter over an empty store that uses the system's clock.
func onRealClock(t testing.TB) *brim.Limiter {
	t.Helper()
	s := memory.New(nil)
	return brim.New(s, nil)
}

// always returns the same policies for each request.
func always(all ...httplimit.Policy) httplimit.Policies {
	return httplimit.PolicyFunc(func(*http.Request) ([]httplimit.Policy, error) { return all, nil })
}

// limited puts policies in front of a handler that answers 200.
func limited(t testing.TB, lim *brim.Limiter, policies httplimit.Policies, o *httplimit.Options) http.Handler {
	t.Helper()
	wrap, err := httplimit.New(lim, policies, o)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
}
