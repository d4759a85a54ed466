package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestUpdateRunsAgainAfterADeadlock sees that Update commits all that its function did, or
// nothing, and runs again after a deadlock, which Options.Trace learns.
func TestUpdateRunsAgainAfterADeadlock(t *testing.T) {
	leakFree(t)
	server := pgtest.NewServer(t, "deadlock_timeout=10ms")
	pool := server.Pool(t)
	var retries atomic.Int64
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool), Trace: store.Trace{Retry: func(r store.Retry) {
		if r.Backend != "postgres" || r.Attempt < 1 || r.Err == nil {
			t.Errorf("%+v", r)
		}
		retries.Add(1)
	}}})
	keys := []string{"a", "b"}
	var both sync.WaitGroup // both functions have locked their first row
	both.Add(2)
	runs := make([]int, 2)
	var callers sync.WaitGroup
	for g := range 2 {
		callers.Go(func() {
			err := s.Update(t.Context(), func(in store.Store) error {
				runs[g]++
				for i := range keys {
					if _, err := in.Fill(t.Context(), op(steady.For(keys[(i+g)%2]), 1, store.Clamp)); err != nil {
						return fmt.Errorf("charging: %w", err)
					}
					if i == 0 && runs[g] == 1 {
						both.Done()
						both.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	levelIs(t, s, "a", 2)
	levelIs(t, s, "b", 2)
	if again := runs[0] + runs[1] - 2; again < 1 || retries.Load() != int64(again) {
		t.Errorf("%d runs after a deadlock, and %d reports of one", again, retries.Load())
	}
	clean(t, pool)
}

// TestUpdateErrors sees which error Update returns, and that nothing is left behind.
func TestUpdateErrors(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
	s := over(t, pool, postgres.Options{Schema: schema})
	b := steady.For(secret)
	charge := func(in store.Store) error { _, err := in.Fill(t.Context(), op(b, 1, store.IfFits)); return err }

	mine := errors.New("no such order")
	if err := s.Update(t.Context(), func(in store.Store) error { return errors.Join(charge(in), mine) }); !errors.Is(err, mine) {
		t.Errorf("the function's error became %v", err)
	}
	levelIs(t, s, secret, 0)

	var kept store.Store
	if err := s.Update(t.Context(), func(in store.Store) error { kept = in; return charge(in) }); err != nil {
		t.Error(err)
	}
	if err := charge(kept); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a store that was kept answers %v", err)
	}
	levelIs(t, s, secret, 1)

	func() { // the caller gets the panic, and the transaction ends
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Update(t.Context(), func(in store.Store) error {
			if err := charge(in); err != nil {
				t.Error(err)
			}
			panic("bug")
		})
	}()
	clean(t, pool)
	levelIs(t, s, secret, 1)

	release := lockRow(t, admin, schema, secret)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Update(ctx, func(in store.Store) error { _, err := in.Fill(ctx, op(b, 1, store.IfFits)); return err })
	plainContext(t, err, context.DeadlineExceeded) // nothing was committed, so nothing is unknown
	release()
	levelIs(t, s, secret, 1)
	clean(t, pool)
}
