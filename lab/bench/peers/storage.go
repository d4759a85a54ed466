package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// storage is the effect of fills on a table of PostgreSQL.
type storage struct {
	Updated  int64   `json:"rows_updated"`
	HeapOnly float64 `json:"heap_only_share"`
	// HotGrowth is the share by which the table grew while one of its buckets was filled for
	// plan.HotFor.
	HotGrowth float64 `json:"hot_key_growth"`
}

// runStorage fills the buckets of a new table: first many of them, then a single one.
func (e *env) runStorage(ctx context.Context, p plan) (_ *storage, err error) {
	const schema, name = "storage", "brim-bench-storage"
	if err := e.migrate(ctx, schema); err != nil {
		return nil, err
	}
	pool, err := e.connect(ctx, connections, name)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	t, err := limiter(s).onKeys(ctx, e, s, 1)
	if err != nil {
		return nil, err
	}
	size := func() (n int64, err error) {
		err = e.pool.QueryRow(ctx, `SELECT pg_relation_size('storage.buckets')`).Scan(&n)
		return n, err
	}
	work := func(distribution string, d time.Duration) error {
		order, err := load.Draw(distribution, keyCount, 1, 0, 2)
		if err == nil {
			_, err = load.Run(ctx, load.Options{Callers: 64, For: d, Order: order, Decide: t.decide})
		}
		return err
	}
	if err := work("uniform", p.HotFor/10); err != nil {
		return nil, errors.Join(err, t.close())
	}
	before, err := size()
	if err == nil {
		err = work("hot", p.HotFor)
	}
	if err := errors.Join(err, t.close()); err != nil {
		return nil, err
	}
	after, err := size()
	if err != nil {
		return nil, err
	}
	pool.Close() // a connection reports its counts when it ends
	const ended = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)`
	for gone := false; !gone; time.Sleep(20 * time.Millisecond) {
		err := e.pool.QueryRow(ctx, ended, name).Scan(&gone)
		if err != nil {
			return nil, err
		}
	}
	const updates = `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'storage.buckets'::regclass`
	var all, hot int64
	err = e.pool.QueryRow(ctx, updates).Scan(&all, &hot)
	if err != nil {
		return nil, err
	}
	return &storage{
		Updated:   all,
		HeapOnly:  float64(hot) / float64(max(1, all)),
		HotGrowth: float64(after-before) / float64(before),
	}, nil
}

// firsts is the name of the subject that fills a new bucket each time.
const firsts = "brim postgres, first inserts"

// runFirsts measures decisions that each create a bucket, in turn with the bare UPDATE of
// existing rows.
func (e *env) runFirsts(ctx context.Context, p plan, update *opened) ([]*measured, error) {
	if err := e.migrate(ctx, "firsts"); err != nil {
		return nil, err
	}
	s, err := postgres.New(e.pool, &postgres.Options{Schema: "firsts"})
	if err != nil {
		return nil, err
	}
	var next atomic.Int64
	inserting := &opened{&subject{name: firsts, against: update.name}, &target{
		written: e.logged,
		decide: func(ctx context.Context, _ int, _ bool) (bool, error) {
			// The multiplication by an odd number scatters the keys over the index, like the keys
			// of new customers.
			key := fmt.Sprintf("%016x", uint64(next.Add(1))*0x9e3779b97f4a7c15)
			st, err := s.Fill(ctx, store.Op{Bucket: roomyLimit.For(key), Amount: 1})
			return st.Accepted, err
		},
	}}
	all, err := e.runCell(ctx, p, cell{"uniform", 64, 0, false}, []*opened{inserting, update})
	return all, errors.Join(err, s.Close())
}

// allocations returns the allocations of a refusal from memory, counted on one caller. It returns
// the least of three counts, because goroutines of the clients and pools allocate meanwhile.
func allocations(ctx context.Context, s *opened) (float64, error) {
	const calls = 100_000
	least := -1.0
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range calls {
			if ok, err := s.decide(ctx, i%fullCount, true); err != nil || ok {
				return 0, errors.Join(err, fmt.Errorf("%s: a full bucket: accepted %v", s.name, ok))
			}
		}
		runtime.ReadMemStats(&after)
		if n := float64((after.Mallocs - before.Mallocs) / calls); least < 0 || n < least {
			least = n
		}
	}
	return least, nil
}
