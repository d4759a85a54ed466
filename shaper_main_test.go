package brim_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// childEnv, in the environment, makes this test binary one of two processes that share a bucket. It is a connection string and
// a schema.
const childEnv = "BRIM_SHAPER_TEST_CHILD"

func TestMain(m *testing.M) {
	if v := os.Getenv(childEnv); v != "" {
		url, schema, _ := strings.Cut(v, " ")
		if err := child(url, schema); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// ticking is a clock that stands still until it is set, for stores that read it from goroutines of their own.
type ticking struct{ us atomic.Int64 }

func newTicking() *ticking {
	c := &ticking{}
	c.us.Store(start.UnixMicro())
	return c
}

func (c *ticking) Now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *ticking) Advance(d time.Duration) { c.us.Add(d.Microseconds()) }

// onEachBackend runs a test over an empty store of each kind, on a clock that the test moves.
func onEachBackend(t *testing.T, test func(t *testing.T, s store.Store, clock *ticking)) {
	t.Helper()
	run := func(name string, open func(t *testing.T, clock *ticking) (store.Store, error)) {
		t.Run(name, func(t *testing.T) {
			clock := newTicking()
			s, err := open(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, s, clock)
		})
	}
	run("memory", func(_ *testing.T, clock *ticking) (store.Store, error) {
		return memory.New(&memory.Options{Clock: clock.Now})
	})
	run("bolt", func(t *testing.T, clock *ticking) (store.Store, error) {
		return bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Clock: clock.Now})
	})
	run("postgres", func(t *testing.T, clock *ticking) (store.Store, error) {
		pool := pgtest.Pool(t)
		return postgres.New(pool, &postgres.Options{Schema: migrated(t, pool), Clock: clock.Now})
	})
}

func migrated(t *testing.T, pool *pgxpool.Pool) (schema string) {
	t.Helper()
	schema = pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return schema
}

// shaper returns a Shaper over s with a longest wait.
func shaper(t testing.TB, s store.Store, maxWait time.Duration) *brim.Shaper {
	t.Helper()
	sh, err := brim.NewShaper(brim.New(s, nil), &brim.ShaperOptions{MaxWait: maxWait})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// child reserves one unit of the worked case's bucket for each line of stdin, which is the time of its arrival in microseconds
// since start. It answers with what the reservation said.
func child(url, schema string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	clock := newTicking()
	s, err := postgres.New(pool, &postgres.Options{Schema: schema, Clock: clock.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	sh, err := brim.NewShaper(brim.New(s, nil), nil)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var us int64
		if _, err := fmt.Sscan(in.Text(), &us); err != nil {
			return err
		}
		clock.us.Store(start.UnixMicro() + us)
		r, err := sh.Reserve(ctx, worked.For("k"), 1)
		if err != nil {
			return err
		}
		fmt.Println(r.State.Accepted, r.Turn().Sub(start).Nanoseconds(), r.State.RetryAfter.Nanoseconds())
	}
	return in.Err()
}
