package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// The limits of brim's buckets.
var (
	roomyLimit = brim.Limit{Capacity: roomy, LeakRate: roomyPerSecond}
	fullLimit  = brim.Over(1, fullWindow)
	rushLimit  = brim.Limit{Capacity: rushCapacity, LeakRate: 1 / rushWindow.Seconds()}
)

// limiter returns a target that decides as an application does: through a Limiter, which
// validates the call.
func limiter(s store.Store) *target {
	lim := brim.New(s, nil)
	return &target{
		rush: func(ctx context.Context, key string) (bool, error) {
			st, err := lim.TryFillup(ctx, rushLimit.For(key), 1)
			return st.Accepted, err
		},
		prune: s.Prune,
		close: s.Close,
	}
}

// onKeys creates the buckets of e, and makes the target decide on them. full is the number of
// full buckets.
func (t *target) onKeys(ctx context.Context, e *env, s store.Store, full int) (*target, error) {
	lim := brim.New(s, nil)
	t.decide = func(ctx context.Context, key int, full bool) (bool, error) {
		b := roomyLimit.For(e.keys[key])
		if full {
			b = fullLimit.For(e.full[key])
		}
		st, err := lim.TryFillup(ctx, b, 1)
		return st.Accepted, err
	}
	// Most buckets have been filled more than once when a decision finds them.
	err := prefill(ctx, s, roomyLimit, e.keys)
	if err == nil {
		err = prefill(ctx, s, roomyLimit, e.keys)
	}
	if err == nil {
		err = prefill(ctx, s, fullLimit, e.full[:full])
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return t, nil
}

// onTable completes a target that keeps its buckets in a table of PostgreSQL. It vacuums the
// table, as the reference's table is vacuumed. Otherwise an autovacuum would clean up after the
// filling while the target is measured.
func (t *target) onTable(ctx context.Context, e *env, table string, err error) (*target, error) {
	if err != nil {
		return nil, err
	}
	t.written = e.logged
	if _, err := e.pool.Exec(ctx, "VACUUM ANALYZE "+table); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// prefill puts one unit into each bucket, from a number of callers that the store combines well.
func prefill(ctx context.Context, s store.Store, limit brim.Limit, keys []string) error {
	return forEach(256, len(keys), func(i int) error {
		st, err := s.Fill(ctx, store.Op{Bucket: limit.For(keys[i]), Amount: 1})
		if err == nil && !st.Accepted {
			err = fmt.Errorf("the first unit was refused: %+v", st)
		}
		return err
	})
}

// forEach calls do for each number below n, from several callers at once. A caller stops at its
// first error. forEach returns one of the errors, because those of the callers are mostly alike.
func forEach(callers, n int, do func(i int) error) error {
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n && errs[c] == nil; i += callers {
				errs[c] = do(i)
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// brims returns brim's own stores.
func brims() []*subject {
	return []*subject{
		{
			name: "brim memory", keeps: "this process", against: "x/time/rate", inMemory: true,
			open: func(ctx context.Context, e *env) (*target, error) {
				s, err := memory.New(nil)
				if err != nil {
					return nil, err
				}
				return limiter(s).onKeys(ctx, e, s, fullCount)
			},
		},
		{
			name: "brim refusals over memory", keeps: "this process", against: "x/time/rate", inMemory: true,
			open: func(ctx context.Context, e *env) (*target, error) {
				m, err := memory.New(nil)
				if err != nil {
					return nil, err
				}
				// A refusal is remembered for the whole run, so the cost of a refusal from memory
				// is measured.
				s, err := local.Refusals(m, &local.RefusalsOptions{Remember: time.Hour, MaxBuckets: fullCount})
				if err != nil {
					return nil, err
				}
				return limiter(s).onKeys(ctx, e, s, fullCount)
			},
		},
		{
			name: "brim bolt relaxed", keeps: "file, written twice a second", against: "x/time/rate", inMemory: true,
			open: func(ctx context.Context, e *env) (*target, error) {
				s, err := bolt.OpenRelaxed(filepath.Join(e.dir, "relaxed.db"), nil)
				if err != nil {
					return nil, err
				}
				t := limiter(s)
				t.settle = s.Sync
				return t.onKeys(ctx, e, s, fullCount)
			},
		},
		{
			name: "brim bolt", keeps: "file, synced before the answer", against: "db.Update",
			open: func(ctx context.Context, e *env) (*target, error) {
				path := filepath.Join(e.dir, "limits.db")
				s, err := bolt.Open(path, nil)
				if err != nil {
					return nil, err
				}
				t := limiter(s)
				j := &boltJournal{s, path + ".journal"}
				t.settle, t.rotations = j.settle, j.rotations
				return t.onKeys(ctx, e, s, fullOnServer)
			},
		},
		{
			name: "brim postgres", keeps: "PostgreSQL, synced before the answer",
			against: "bare UPDATE", server: postgresServer,
			open: func(ctx context.Context, e *env) (*target, error) {
				s, err := postgres.New(e.pool, nil)
				if err != nil {
					return nil, err
				}
				t, err := limiter(s).onKeys(ctx, e, s, fullOnServer)
				return t.onTable(ctx, e, "brim.buckets", err)
			},
		},
		{
			name: "brim refusals over postgres", keeps: "PostgreSQL, synced; refusals remembered for 1 s",
			against: "bare UPDATE", server: postgresServer,
			open: func(ctx context.Context, e *env) (*target, error) {
				p, err := postgres.New(e.pool, &postgres.Options{Schema: "remembered"})
				if err != nil {
					return nil, err
				}
				if err := e.migrate(ctx, "remembered"); err != nil {
					return nil, err
				}
				s, err := local.Refusals(p, nil)
				if err != nil {
					return nil, err
				}
				t, err := limiter(s).onKeys(ctx, e, s, fullOnServer)
				return t.onTable(ctx, e, "remembered.buckets", err)
			},
		},
	}
}
