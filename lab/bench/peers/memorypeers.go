package main

import (
	"context"
	"sync"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// memoryPeers returns limiters that keep their state in the process. A limiter that has no keys
// is kept in a sync.Map with one limiter per key, as programs commonly do.
func memoryPeers() []*subject {
	return []*subject{
		{
			name:     "x/time/rate",
			group:    peer,
			keeps:    "this process, in a sync.Map",
			against:  "x/time/rate",
			inMemory: true,
			open:     openTimeRate,
		},
		{
			name:     "uber/ratelimit",
			group:    peer,
			keeps:    "this process, in a sync.Map",
			against:  "x/time/rate",
			inMemory: true,
			open:     openUber,
		},
		{
			name:     "sethvargo/go-limiter",
			group:    peer,
			keeps:    "this process",
			against:  "x/time/rate",
			inMemory: true,
			open:     openSethvargo,
		},
	}
}

func openTimeRate(_ context.Context, e *env) (*target, error) {
	var limiters sync.Map
	allow := func(key string, perSecond rate.Limit, burst int) bool {
		v, ok := limiters.Load(key)
		if !ok {
			v, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, burst))
		}
		return v.(*rate.Limiter).AllowN(time.Now(), 1)
	}
	perWindow := rate.Limit(1 / fullWindow.Seconds())
	t := &target{
		decide: func(_ context.Context, key int, full bool) (bool, error) {
			if full {
				return allow(e.full[key], perWindow, 1), nil
			}
			return allow(e.keys[key], roomyPerSecond, roomy), nil
		},
		rush: func(_ context.Context, key string) (bool, error) {
			return allow(key, rate.Limit(1/rushWindow.Seconds()), rushCapacity), nil
		},
		close: func() error { return nil },
	}
	return t, t.touchAll(e)
}

// openUber opens a limiter that never refuses, and lets its callers sleep instead. Its rate is so
// high here that no caller sleeps: the cost of an admission is measured.
func openUber(_ context.Context, e *env) (*target, error) {
	var limiters sync.Map
	t := &target{
		decide: func(_ context.Context, key int, _ bool) (bool, error) {
			v, ok := limiters.Load(e.keys[key])
			if !ok {
				v, _ = limiters.LoadOrStore(e.keys[key], ratelimit.New(int(time.Second)))
			}
			v.(ratelimit.Limiter).Take()
			return true, nil
		},
		cannotRefuse: true, close: func() error { return nil },
	}
	for key := range e.keys {
		if _, err := t.decide(context.Background(), key, false); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// openSethvargo opens one store for each of the limits, because a store has a single limit.
func openSethvargo(ctx context.Context, e *env) (*target, error) {
	open := func(tokens uint64, window time.Duration) (func(context.Context, string) (bool, error), func() error, error) {
		s, err := memorystore.New(
			&memorystore.Config{Tokens: tokens, Interval: window, SweepMinTTL: 2 * time.Hour, InitialAlloc: keyCount})
		if err != nil {
			return nil, nil, err
		}
		take := func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := s.Take(ctx, key)
			return ok, err
		}
		return take, func() error { return s.Close(ctx) }, nil
	}
	var takes [3]func(context.Context, string) (bool, error)
	var closes [3]func() error
	for i, c := range []struct {
		tokens uint64
		window time.Duration
	}{{roomy, fullWindow}, {1, fullWindow}, {rushCapacity, rushWindow}} {
		var err error
		if takes[i], closes[i], err = open(c.tokens, c.window); err != nil {
			return nil, err
		}
	}
	t := &target{
		decide: func(ctx context.Context, key int, full bool) (bool, error) {
			if full {
				return takes[1](ctx, e.full[key])
			}
			return takes[0](ctx, e.keys[key])
		},
		rush: takes[2],
		close: func() error {
			for _, end := range closes {
				if err := end(); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return t, t.touchAll(e)
}

// touchAll asks once for every bucket in memory. The measurement then creates no bucket, and the
// full buckets are full.
func (t *target) touchAll(e *env) error {
	ctx := context.Background()
	for key := range e.keys {
		if _, err := t.decide(ctx, key, false); err != nil {
			return err
		}
	}
	for key := range e.full {
		if _, err := t.decide(ctx, key, true); err != nil {
			return err
		}
	}
	return nil
}
