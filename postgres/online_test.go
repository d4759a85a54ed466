package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// online fills buckets in all ways until stop is called, which returns the number of calls. Each call
// must be answered, and each unit must be in its bucket afterwards. Calls may fail with
// ErrUnavailable if failing says so.
func online(t *testing.T, s *postgres.Store, failing bool) (stop func() int64) {
	t.Helper()
	const keys = 30
	key := func(n int64) string { return fmt.Sprintf("key %02d", n%keys) }
	var calls, fresh atomic.Int64
	var units [keys]atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for g := range int64(16) {
		wg.Go(func() {
			for n := g; ctx.Err() == nil; n += 7 {
				var err error
				var st store.State
				in := []int64{n % keys}
				switch n % 5 {
				case 0:
					in = append(in, (n+1)%keys)
					var res []store.Result
					res, err = s.Apply(context.Background(), store.Txn{op(steady.For(key(n)), 1, store.IfFits), op(steady.For(key(n+1)), 1, store.IfFits)})
					st.Accepted = err == nil && res[0].Accepted
				case 1:
					st, err = s.Fill(context.Background(), op(steady.For(key(n)), 1, store.Clamp))
				case 2:
					in = nil
					st, err = s.Fill(context.Background(), op(steady.For(fmt.Sprint("new ", fresh.Add(1))), 1, store.IfFits))
				case 3:
					in = nil
					st, err = s.Fill(context.Background(), op(store.Limit{Capacity: 1}.For("full"), 1, store.IfFits))
					st.Accepted = true // at most once
				default:
					st, err = s.Fill(context.Background(), op(steady.For(key(n)), 1, store.IfFits))
				}
				switch {
				case failing && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome):
				case err != nil || !st.Accepted:
					t.Errorf("%+v, %v", st, err)
					return
				default:
					for _, i := range in {
						units[i].Add(1)
					}
				}
				calls.Add(1)
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		for n := range int64(keys) {
			levelIs(t, s, key(n), float64(units[n].Load()))
		}
		return calls.Load()
	}
}

// TestOnlineChanges changes the table under load, in all ways that an operator does without a pause.
// No call fails, and no unit is lost or made.
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
			pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=8"))
			s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: time.Minute})
			stop := online(t, s, false)
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

// TestTableLockedForTooLong locks the table for longer than StatementTimeout. No lock_timeout counts
// for such a wait, but the server answers that it has cancelled the statement: nothing was applied.
func TestTableLockedForTooLong(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t)
	pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=8"))
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 2 * time.Second})
	for _, call := range calls(s, steady.For("k")) { // prepares the statements
		if err := call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop := online(t, s, true)
	tx, err := admin.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE "+table(t, schema))
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for name, call := range calls(s, steady.For("k")) {
		wg.Go(func() {
			start := time.Now()
			err := call(context.Background())
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s: %v, want ErrUnavailable", name, err)
			}
			if took := time.Since(start); took > 6*time.Second {
				t.Errorf("%s was answered after %v, want twice 2s at most", name, took)
			}
		})
	}
	wg.Wait()
	end(t, tx, false)
	stop()
	clean(t, pool)
}
