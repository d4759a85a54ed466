package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// The limits of brim's buckets.
var (
	roomyLimit = brim.Limit{Capacity: roomy, LeakRate: roomyPerSecond}
	fullLimit  = brim.Over(1, fullWindow)
	rushLimit  = brim.Limit{Capacity: rushCapacity, LeakRate: 1 / rushWindow.Seconds()}
)

// asking returns a function that decides as an application does: through a Limiter, which validates
// the call.
func asking(s store.Store, limit brim.Limit) ask {
	lim := brim.New(s, nil)
	return func(ctx context.Context, key string) (bool, error) {
		st, err := lim.TryFillup(ctx, limit.For(key), 1)
		return st.Accepted, err
	}
}

// over returns a target that decides by a store.
func over(s store.Store, err error) (*target, error) {
	if err != nil {
		return nil, err
	}
	return &target{
		roomy: asking(s, roomyLimit), full: asking(s, fullLimit), rush: asking(s, rushLimit), close: s.Close,
	}, nil
}

// brims returns brim's own stores.
func brims() []*subject {
	all := []*subject{
		{name: memoryName, against: rateName, inMemory: true, open: func(context.Context, *env) (*target, error) {
			return over(memory.New(nil), nil)
		}},
		{name: "brim refusals over memory", against: rateName, inMemory: true, open: func(context.Context, *env) (*target, error) {
			m := memory.New(nil)
			// A refusal is remembered for the whole run, so the cost of a refusal from memory is
			// measured.
			return over(local.Refusals(m, &local.RefusalsOptions{Remember: time.Hour, MaxBuckets: fullCount}))
		}},
		{name: "brim bolt with SyncEvery", against: boltUpdate, open: func(_ context.Context, e *env) (*target, error) {
			s, err := bolt.Open(filepath.Join(e.dir, "synced.db"), &bolt.Options{SyncEvery: 100 * time.Millisecond})
			t, err := over(s, err)
			if err == nil {
				t.drain = s.Sync
			}
			return t, err
		}},
		{name: boltName, against: boltUpdate, open: func(_ context.Context, e *env) (*target, error) {
			path := filepath.Join(e.dir, "limits.db")
			s, err := bolt.Open(path, nil)
			t, err := over(s, err)
			if err == nil {
				t.journal = path + ".journal"
				t.drain = func(ctx context.Context) error { return drainBolt(ctx, s, t.journal) }
			}
			return t, err
		}},
		{
			name: "brim postgres", against: updateName, server: postgresServer, table: "brim.buckets",
			open: func(_ context.Context, e *env) (*target, error) {
				s, err := postgres.New(e.pool, nil)
				t, err := over(s, err)
				return e.logs(t, err)
			},
		},
	}
	for _, k := range redisKinds {
		all = append(all, &subject{
			name: "brim redis" + k.suffix, against: "redis_rate" + k.suffix, server: k.kind,
			open: func(_ context.Context, e *env) (*target, error) {
				return over(redisstore.New(e.redis[k.kind].client, nil))
			},
		})
	}
	for _, s := range all {
		s.group, s.fills = ours, 2
	}
	return all
}

// logs has a target report the bytes that PostgreSQL writes to its log.
func (e *env) logs(t *target, err error) (*target, error) {
	if err == nil {
		t.meters = []meter{{"log bytes", e.logged, 1}}
	}
	return t, err
}
