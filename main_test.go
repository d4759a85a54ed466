package brim_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { pgtest.Main(redistest.With(m)) }

// start is the time at which every test clock begins.
var start = time.Date(2024, 2, 29, 23, 59, 50, 0, time.UTC)

func newClock() *brimtest.Clock { return brimtest.NewClock(start) }

// open returns a Limiter over an empty memory store, the store, and the clock of the store.
func open(t testing.TB, o *brim.Options) (*brim.Limiter, store.Store, *brimtest.Clock) {
	t.Helper()
	clock := newClock()
	s := memory.New(&memory.Options{Clock: clock.Now})
	return brim.New(s, o), s, clock
}

// onEachBackend runs a test over an empty store of each backend, on a clock that the test
// advances.
func onEachBackend(t *testing.T, test func(t *testing.T, s store.Store, clock *brimtest.Clock)) {
	t.Helper()
	run := func(name string, open func(t *testing.T, clock *brimtest.Clock) (store.Store, error)) {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			s, err := open(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, s, clock)
		})
	}
	run("memory", func(_ *testing.T, clock *brimtest.Clock) (store.Store, error) {
		return memory.New(&memory.Options{Clock: clock.Now}), nil
	})
	run("bolt", func(t *testing.T, clock *brimtest.Clock) (store.Store, error) {
		return bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Clock: clock.Now})
	})
	run("postgres", func(t *testing.T, clock *brimtest.Clock) (store.Store, error) {
		pool := pgtest.Pool(t)
		return postgres.New(pool, &postgres.Options{Schema: migrated(t), Clock: clock.Now, StatementTimeout: time.Minute})
	})
	run("redis", func(t *testing.T, clock *brimtest.Clock) (store.Store, error) {
		return buckets.Open(t, clock.Now), nil
	})
}

// migrated returns the name of a new schema that has brim's tables.
func migrated(t *testing.T) (schema string) {
	t.Helper()
	schema = pgtest.Schema(t)
	script, err := migrations.SQL(&migrations.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, script)
	return schema
}

// tens holds 10 units and leaks one per second.
var tens = brim.Limit{Capacity: 10, LeakRate: 1}

// must returns a function that returns the state of a call and fails the test if the call
// failed.
func must(t testing.TB) func(brim.State, error) brim.State {
	return func(st brim.State, err error) brim.State {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return st
	}
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
