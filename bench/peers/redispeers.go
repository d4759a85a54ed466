package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// tries are the calls of a limiter over Redis that ask for one unit of a roomy, a full and a
// rushed bucket.
type tries struct {
	roomy, full, rush func(ctx context.Context, key string) (bool, error)
	tolerant          bool
}

// redisPeers returns limiters over Redis. Each of them is measured with both settings of Redis's
// append-only file.
func redisPeers() []*subject {
	var all []*subject
	for _, server := range []string{redisAlways, redisEverysec} {
		for _, p := range []struct {
			name string
			open func(r *redisServer) (tries, error)
		}{{"redis_rate", redisRate}, {"throttled", throttle}, {"ulule/limiter", fixedWindow}} {
			fsync := "always"
			if server == redisEverysec {
				fsync = "everysec"
			}
			all = append(all, &subject{
				name: p.name + ", AOF " + fsync, group: peer, keeps: server, against: "bare UPDATE", server: server,
				open: func(ctx context.Context, e *env) (*target, error) {
					r := e.redis[server]
					try, err := p.open(r)
					if err != nil {
						return nil, err
					}
					t := &target{
						decide: func(ctx context.Context, key int, full bool) (bool, error) {
							if full {
								return try.full(ctx, e.full[key])
							}
							return try.roomy(ctx, e.keys[key])
						},
						rush: try.rush, tolerant: try.tolerant, written: r.written, close: func() error { return nil },
					}
					return t, t.fillFull(ctx)
				},
			})
		}
	}
	return all
}

// fillFull fills the buckets that are full during the measurement.
func (t *target) fillFull(ctx context.Context) error {
	return forEach(connections, fullOnServer, func(key int) error {
		ok, err := t.decide(ctx, key, true)
		if err == nil && !ok {
			err = errors.New("the first call was refused")
		}
		return err
	})
}

func redisRate(r *redisServer) (tries, error) {
	lim := redis_rate.NewLimiter(r.client)
	try := func(limit redis_rate.Limit) func(context.Context, string) (bool, error) {
		return func(ctx context.Context, key string) (bool, error) {
			res, err := lim.Allow(ctx, key, limit)
			if err != nil {
				return false, err
			}
			return res.Allowed == 1, nil
		}
	}
	return tries{
		roomy: try(redis_rate.Limit{Rate: roomyPerSecond, Burst: roomyPerSecond, Period: time.Second}),
		full:  try(redis_rate.Limit{Rate: 1, Burst: 1, Period: fullWindow}),
		rush:  try(redis_rate.Limit{Rate: 1, Burst: rushCapacity, Period: rushWindow}),
	}, nil
}

// throttle opens throttled with its defaults. On a busy key throttled gives up after ten
// attempts, with an error that is neither an acceptance nor a refusal.
func throttle(r *redisServer) (tries, error) {
	st, err := goredisstore.NewCtx(r.client, "throttled:")
	if err != nil {
		return tries{}, err
	}
	var errs error
	try := func(rate throttled.Rate, burst int) func(context.Context, string) (bool, error) {
		lim, err := throttled.NewGCRARateLimiterCtx(st, throttled.RateQuota{MaxRate: rate, MaxBurst: burst})
		errs = errors.Join(errs, err)
		return func(ctx context.Context, key string) (bool, error) {
			limited, _, err := lim.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited, err
		}
	}
	t := tries{
		roomy:    try(throttled.PerSec(roomyPerSecond), roomyPerSecond),
		full:     try(throttled.PerDuration(1, fullWindow), 0),
		rush:     try(throttled.PerDuration(1, rushWindow), rushCapacity-1), // throttled accepts the burst and one more
		tolerant: true,
	}
	return t, errs
}

func fixedWindow(r *redisServer) (tries, error) {
	var errs error
	try := func(name string, limit int64, window time.Duration) func(context.Context, string) (bool, error) {
		st, err := ululeredis.NewStoreWithOptions(r.client, ulule.StoreOptions{Prefix: fmt.Sprintf("ulule-%s", name)})
		errs = errors.Join(errs, err)
		lim := ulule.New(st, ulule.Rate{Period: window, Limit: limit})
		return func(ctx context.Context, key string) (bool, error) {
			c, err := lim.Get(ctx, key)
			return err == nil && !c.Reached, err
		}
	}
	return tries{
		roomy: try("roomy", roomy, time.Minute),
		full:  try("full", 1, fullWindow),
		rush:  try("rush", rushCapacity, rushWindow),
	}, errs
}
