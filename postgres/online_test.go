package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// online fills buckets in all ways, by 16 callers of each store, until stop is called, which
// returns the number of calls. Each call must be answered, and each level must be the answer to
// exactly one unit.
func online(t *testing.T, stores ...*postgres.Store) (stop func() int64) {
	t.Helper()
	const keys = 30
	key := func(n int64) string { return fmt.Sprintf("key %02d", n%keys) }
	var calls, fresh atomic.Int64
	var mu sync.Mutex
	levels := make(map[string][]float64)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for g := range int64(16 * len(stores)) {
		s := stores[g%int64(len(stores))]
		wg.Go(func() {
			for n := g; ctx.Err() == nil; n += 7 {
				ops := []store.Op{op(steady.For(key(n)), 1, store.IfFits)}
				switch n % 5 {
				case 0:
					ops = append(ops, op(steady.For(key(n+1+n%2)), 1, store.IfFits))
					if n%4 > 1 { // in either order
						slices.Reverse(ops)
					}
				case 1:
					ops[0].Mode = store.Clamp
				case 2: // new to some callers at once
					ops[0].Key = fmt.Sprint("new ", fresh.Add(1)/4)
				case 3:
					ops[0].Bucket = store.Limit{Capacity: 1}.For("full")
				}
				var res store.Result
				var err error
				if len(ops) == 1 {
					var st store.State
					st, err = s.Fill(context.Background(), ops[0])
					res = store.Result{States: []store.State{st}, Accepted: st.Accepted || n%5 == 3}
				} else {
					var all []store.Result
					if all, err = s.Apply(context.Background(), ops); err == nil {
						res = all[0]
					}
				}
				if err != nil || !res.Accepted {
					t.Errorf("%+v: %+v, %v", ops, res, err)
					return
				}
				mu.Lock()
				for i, st := range res.States {
					if st.Accepted {
						levels[ops[i].Key] = append(levels[ops[i].Key], st.Level)
					}
				}
				mu.Unlock()
				calls.Add(1)
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		for key, answered := range levels {
			slices.Sort(answered)
			for i, level := range answered {
				if level != float64(i+1) {
					t.Errorf("the levels of %s contain %v in the place of %d: a unit was lost or answered twice", key, level, i+1)
					break
				}
			}
		}
		for _, e := range list(t, stores[0], "") {
			if e.Level != float64(len(levels[e.Key])) {
				t.Errorf("%s holds %v; %d units were put in", e.Key, e.Level, len(levels[e.Key]))
			}
		}
		return calls.Load()
	}
}

// TestFlushesLockInOrder has three stores fill the same buckets. The server looks for a deadlock
// long before a flush has waited for its lock_timeout, so one that locks in another order
// deadlocks. The one deadlock that docs/internals/postgres.md names has an insertion in it.
func TestFlushesLockInOrder(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, "deadlock_timeout=1ms")
	admin := server.Pool(t)
	schema := migrateOn(t, admin)
	var stores []*postgres.Store
	var pools []*pgxpool.Pool
	for range 3 {
		pool := pgtest.PoolAt(t, tune(server.URL(), "application_name=measured"))
		pools, stores = append(pools, pool), append(stores, over(t, pool, postgres.Options{Schema: schema}))
	}
	stop := online(t, stores...)
	// Real time, because the server looks for deadlocks by its own clock.
	time.Sleep(time.Duration(seed.Attempts(2, 60)) * time.Second)
	t.Logf("%d calls", stop())
	for _, pool := range pools {
		pool.Close()
	}
	pgtest.Reported(t, admin, "measured")
	all, err := server.Deadlocks()
	if err != nil {
		t.Fatal(err)
	}
	if n := scalar[int](t, admin, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != len(all) {
		t.Errorf("the server has counted %d deadlocks and logged %d", n, len(all))
	}
	for _, d := range all {
		if insertion := strings.Contains(d, ": INSERT") || strings.Contains(d, ": WITH"); !insertion {
			t.Errorf("flushes have waited for each other:\n%s", d)
		} else {
			t.Logf("an insertion and a flush have waited for each other:\n%s", d)
		}
	}
}

// TestOnlineChanges changes the table under load, in all ways that an operator does without a
// pause. No call fails, and no unit is lost or made.
func TestOnlineChanges(t *testing.T) {
	leakFree(t)
	for _, c := range []struct {
		name string
		ddl  string // @ is the table; statements that end with a line run by themselves
	}{
		{"partitions", ""},
		{"swap", "BEGIN; ALTER TABLE @ RENAME TO buckets_old; CREATE TABLE @ (LIKE @_old INCLUDING ALL); " +
			"INSERT INTO @ SELECT * FROM @_old; DROP TABLE @_old; COMMIT"},
		{"vacuum full", "VACUUM FULL @"},
		{"reindex", "REINDEX TABLE CONCURRENTLY @"},
		{"add column", "ALTER TABLE @ ADD COLUMN note text DEFAULT 'none'\nALTER TABLE @ DROP COLUMN note"},
		{"fillfactor", "ALTER TABLE @ SET (fillfactor = 70)"},
		{"lock", "BEGIN; LOCK TABLE @; SELECT pg_sleep(0.2); COMMIT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := pgtest.Pool(t)
			schema := migrated(t)
			pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=8"))
			s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: time.Minute})
			stop := online(t, s)
			changed := 0
			for until := time.Now().Add(time.Duration(seed.Attempts(400, 10_000)) * time.Millisecond); time.Now().Before(until) && !t.Failed(); changed++ {
				if c.ddl == "" {
					if changed == 0 {
						partition(t, admin, schema, 3)
					}
					continue
				}
				for sql := range strings.Lines(strings.ReplaceAll(c.ddl, "@", schema+".buckets")) {
					execute(t, admin, sql)
				}
			}
			t.Logf("%d calls during %d changes", stop(), changed)
			clean(t, pool)
		})
	}
}
