package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// memoryPeers returns limiters that keep their state in the process. A limiter that has no keys
// is kept in a sync.Map with one limiter per key, as programs commonly do.
func memoryPeers() (all []*subject) {
	for _, p := range []struct {
		name string
		open func() (*target, error)
	}{
		{rateName, timeRate}, {"uber/ratelimit", uber}, {"sethvargo/go-limiter", sethvargo},
	} {
		all = append(all, &subject{
			name: p.name, group: peer, against: rateName, inMemory: true, fills: 1,
			open: func(context.Context, *env) (*target, error) { return p.open() },
		})
	}
	return all
}

// loaded returns the value of a key in a map, a new one if there is none.
func loaded[V any](values *sync.Map, key string, newValue func() V) V {
	v, ok := values.Load(key)
	if !ok {
		v, _ = values.LoadOrStore(key, newValue())
	}
	return v.(V)
}

func timeRate() (*target, error) {
	var limiters sync.Map
	try := func(perSecond float64, burst int) ask {
		open := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), burst) }
		return func(_ context.Context, key string) (bool, error) {
			return loaded(&limiters, key, open).AllowN(time.Now(), 1), nil
		}
	}
	return &target{
		roomy: try(roomyPerSecond, roomy), full: try(1/fullWindow.Seconds(), 1), rush: try(1/rushWindow.Seconds(), rushCapacity),
	}, nil
}

// uber opens a limiter that never refuses, and lets its callers sleep instead. Its rate is so high
// here that no caller sleeps: the cost of an admission is measured.
func uber() (*target, error) {
	var limiters sync.Map
	open := func() ratelimit.Limiter { return ratelimit.New(int(time.Second)) }
	return &target{roomy: func(_ context.Context, key string) (bool, error) {
		loaded(&limiters, key, open).Take()
		return true, nil
	}}, nil
}

// sethvargo opens one store for each of the limits, because a store has a single limit.
func sethvargo() (*target, error) {
	var errs error
	var stores []limiter.Store
	try := func(tokens uint64, window time.Duration) ask {
		s, err := memorystore.New(
			&memorystore.Config{Tokens: tokens, Interval: window, SweepMinTTL: 2 * time.Hour, InitialAlloc: keyCount})
		if err != nil {
			errs = errors.Join(errs, err)
			return nil
		}
		stores = append(stores, s)
		return func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := s.Take(ctx, key)
			return ok, err
		}
	}
	return &target{
		roomy: try(roomy, fullWindow), full: try(1, fullWindow), rush: try(rushCapacity, rushWindow),
		close: func() (err error) {
			for _, s := range stores {
				err = errors.Join(err, s.Close(context.Background()))
			}
			return err
		},
	}, errs
}

// redisKinds are the kinds of servers on which the limiters over Redis are measured, with the
// ends of the subjects' names.
var redisKinds = []struct{ kind, suffix string }{
	{redisAlways, ", AOF always"}, {redisEverysec, ", AOF everysec"}, {redisCluster, ", cluster"},
}

// redisPeers returns limiters over Redis. redis_rate is measured on each kind of server, and the
// others where an answer waits for the disk.
func redisPeers() (all []*subject) {
	for _, k := range redisKinds {
		for _, p := range []struct {
			name     string
			tolerant bool
			open     func(client redis.UniversalClient) (*target, error)
		}{
			{"redis_rate", false, redisRate},
			{"redis_rate with AutoPipeline", false, redisRatePipelined},
			{"throttled", true, throttle},
			{"ulule/limiter", false, fixedWindow},
		} {
			against := "redis_rate" + k.suffix
			if p.name == "redis_rate" {
				against = updateName
			} else if k.kind != redisAlways {
				continue
			}
			all = append(all, &subject{
				name: p.name + k.suffix, group: peer, against: against, server: k.kind, tolerant: p.tolerant,
				open: func(_ context.Context, e *env) (*target, error) {
					return p.open(e.redis[k.kind].client)
				},
			})
		}
	}
	return all
}

func redisRate(client redis.UniversalClient) (*target, error) {
	return allow(redis_rate.NewLimiter(client), ""), nil
}

func redisRatePipelined(client redis.UniversalClient) (*target, error) {
	pipelined, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return allow(redis_rate.NewLimiter(pipelined), "pipelined:"), nil
}

// allow decides with redis_rate, under keys of its own.
func allow(lim *redis_rate.Limiter, prefix string) *target {
	try := func(rate, burst int, period time.Duration) ask {
		return func(ctx context.Context, key string) (bool, error) {
			res, err := lim.Allow(ctx, prefix+key, redis_rate.Limit{Rate: rate, Burst: burst, Period: period})
			return err == nil && res.Allowed == 1, err
		}
	}
	return &target{
		roomy: try(roomyPerSecond, roomyPerSecond, time.Second), full: try(1, 1, fullWindow), rush: try(1, rushCapacity, rushWindow),
	}
}

// throttle opens throttled with its defaults. On a busy key throttled gives up after ten
// attempts, with an error that is neither an acceptance nor a refusal.
func throttle(client redis.UniversalClient) (*target, error) {
	st, errs := goredisstore.NewCtx(client, "throttled:")
	try := func(rate throttled.Rate, burst int) ask {
		lim, err := throttled.NewGCRARateLimiterCtx(st, throttled.RateQuota{MaxRate: rate, MaxBurst: burst})
		errs = errors.Join(errs, err)
		return func(ctx context.Context, key string) (bool, error) {
			limited, _, err := lim.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited, err
		}
	}
	return &target{
		roomy: try(throttled.PerSec(roomyPerSecond), roomyPerSecond),
		full:  try(throttled.PerDuration(1, fullWindow), 0),
		rush:  try(throttled.PerDuration(1, rushWindow), rushCapacity-1), // throttled accepts the burst and one more
	}, errs
}

func fixedWindow(client redis.UniversalClient) (*target, error) {
	var errs error
	try := func(name string, limit int64, window time.Duration) ask {
		st, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "ulule-" + name})
		errs = errors.Join(errs, err)
		lim := ulule.New(st, ulule.Rate{Period: window, Limit: limit})
		return func(ctx context.Context, key string) (bool, error) {
			c, err := lim.Get(ctx, key)
			return err == nil && !c.Reached, err
		}
	}
	return &target{
		roomy: try("roomy", roomy, time.Minute), full: try("full", 1, fullWindow), rush: try("rush", rushCapacity, rushWindow),
	}, errs
}
