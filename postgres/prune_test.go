package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// handClock is a clock that stands still until the test moves it.
type handClock struct{ us atomic.Int64 }

func newHandClock() *handClock {
	c := &handClock{}
	c.us.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	return c
}

func (c *handClock) now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *handClock) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

func prune(t *testing.T, s store.Store, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // Prune waits for no lock
	defer cancel()
	if n, err := s.Prune(ctx); n != want || err != nil {
		t.Errorf("pruned %d, %v; want %d", n, err, want)
	}
}

// TestPruneSkipsLocked prunes while somebody has locked a row. Prune does not wait, and removes
// the row the next time.
func TestPruneSkipsLocked(t *testing.T) {
	clock := newHandClock()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	for i := range 10 {
		fill(t, s, op(store.Limit{Capacity: 1, LeakRate: 1}.For(fmt.Sprint(i)), 1, store.Clamp))
	}
	clock.advance(time.Hour)
	release := lockRow(t, pool, schema, "3")
	prune(t, s, 9)
	release()
	prune(t, s, 1)
	prune(t, s, 0)
}

// keepRow has the server refuse to delete the row whose key has a prefix, until allow is called.
func keepRow(t *testing.T, pool *pgxpool.Pool, schema, prefix string) (allow func()) {
	t.Helper()
	execute(t, pool, "CREATE FUNCTION "+schema+`.refuse() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE EXCEPTION 'this row stays'; END $$`)
	execute(t, pool, "CREATE TRIGGER refuse BEFORE DELETE ON "+table(t, schema)+
		" FOR EACH ROW WHEN (starts_with(old.key, '"+prefix+"')) EXECUTE FUNCTION "+schema+".refuse()")
	return func() { execute(t, pool, "DROP TRIGGER refuse ON "+table(t, schema)) }
}

// TestPruneManyPages prunes a table of more pages than one statement reads. It removes every
// empty bucket and keeps all others. If a statement fails, Prune returns the number of those that
// it has removed before.
func TestPruneManyPages(t *testing.T) {
	const rows = 9_000 // about eight a page
	clock := newHandClock()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	execute(t, pool, "INSERT INTO "+table(t, schema)+` (key, level, atime, capacity, leak_rate)
		SELECT rpad('key ' || i || ' ', 900, md5(i::text)), CASE WHEN i % 100 = 0 THEN 1e9 ELSE 1 END, $1, 1e9, 1 FROM generate_series(1, $2) AS i`, clock.now(), rows)
	if pages := scalar[int](t, pool, "SELECT pg_relation_size($1::text::regclass) / 8192", table(t, schema)); pages <= 1000 {
		t.Fatalf("only %d pages", pages)
	}
	clock.advance(time.Hour)
	allow := keepRow(t, pool, schema, fmt.Sprint("key ", rows-1, " "))
	n, err := s.Prune(t.Context())
	if left := scalar[int64](t, pool, "SELECT count(*) FROM "+table(t, schema)); err == nil || n == 0 || left != rows-n {
		t.Errorf("pruned %d, %v, and %d rows of %d are left; want an error after the first pages", n, err, left, rows)
	}
	allow()
	prune(t, s, rows-rows/100-n)
	prune(t, s, 0)
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)+" WHERE level = 1e9"); n != rows/100 {
		t.Errorf("%d buckets that were not empty are left of %d", n, rows/100)
	}
}

// TestPruneChangesNoAnswer prunes while 32 callers fill. Each bucket takes exactly its capacity
// in each epoch. At the start of an epoch every bucket has leaked empty, and may or may not be
// pruned before its next fill.
func TestPruneChangesNoAnswer(t *testing.T) {
	t.Parallel()
	const epochs, keys, capacity = 8, 30, 10
	clock := newHandClock()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	limit := store.Limit{Capacity: capacity, LeakRate: 1}

	stop := make(chan struct{})
	var pruner sync.WaitGroup
	var pruned atomic.Int64
	pruner.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := s.Prune(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			pruned.Add(n)
		}
	})
	for epoch := range epochs {
		var accepted [keys]atomic.Int64
		var callers sync.WaitGroup
		for g := range 32 {
			callers.Go(func() {
				for i := range 2 * keys {
					k := (i*7 + g) % keys
					b := limit.For(fmt.Sprint("key ", k))
					var st store.State
					var err error
					if g%4 == 0 {
						var res []store.Result
						if res, err = s.Apply(t.Context(), store.Txn{op(b, 1, store.IfFits)}); err == nil {
							st = res[0].States[0]
						}
					} else {
						st, err = s.Fill(t.Context(), op(b, 1, store.IfFits))
					}
					if err != nil {
						t.Error(err)
						return
					}
					if st.Accepted {
						accepted[k].Add(1)
					}
				}
			})
		}
		callers.Wait()
		for k := range accepted {
			if n := accepted[k].Load(); n != capacity {
				t.Errorf("epoch %d: a bucket of %d took %d", epoch, capacity, n)
			}
		}
		clock.advance(time.Hour)
	}
	close(stop)
	pruner.Wait()
	if pruned.Load() < keys {
		t.Errorf("only %d buckets were pruned meanwhile", pruned.Load())
	}
}

// TestPruneEvery sees that the store prunes by itself, logs it, goes on after a failure and
// stops at Close.
func TestPruneEvery(t *testing.T) {
	leakFree(t)
	clock := newHandClock()
	pool := pgtest.PoolAt(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	log := &records{}
	s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now, PruneEvery: time.Millisecond, Logger: log.logger()})
	until(t, "pruning to fail without a table", func() bool { return log.count("pruning failed") > 1 })
	migrateTo(t, pool, schema)
	fill(t, s, op(store.Limit{Capacity: 1, LeakRate: 1}.For(secret), 1, store.Clamp))
	clock.advance(time.Hour)
	until(t, "the bucket to be pruned", func() bool { return log.count("pruned buckets") > 0 })
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if log.count(secret) != 0 {
		t.Error("a log line has the key")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	clean(t, pool)
}
