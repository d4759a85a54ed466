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

	"github.com/brimgo/brim/lab/bench/internal/redises"
	"github.com/brimgo/brim/redisstore"
)

// tries are the calls of a limiter over Redis that ask for one unit of a roomy, a full and a
// rushed bucket.
type tries struct {
	roomy, full, rush func(ctx context.Context, key string) (bool, error)
	tolerant          bool
}

// redisKinds are the kinds of servers on which the limiters over Redis are measured, with the
// ends of the subjects' names.
var redisKinds = []struct{ kind, suffix string }{
	{redisAlways, ", AOF always"}, {redisEverysec, ", AOF everysec"}, {redisCluster, ", cluster"},
}

// redisBrims returns brim's store over Redis.
func redisBrims() (all []*subject) {
	for _, k := range redisKinds {
		all = append(all, &subject{
			name: "brim redis" + k.suffix, keeps: k.kind, against: "redis_rate" + k.suffix, server: k.kind,
			open: func(ctx context.Context, e *env) (*target, error) {
				r := e.redis[k.kind]
				s, err := redisstore.New(r.Client, nil)
				if err != nil {
					return nil, err
				}
				t := limiter(s)
				t.measures(r, k.kind)
				return t.onKeys(ctx, e, s, fullOnServer)
			},
		})
	}
	return all
}

// measures has the target report the figures of its servers.
func (t *target) measures(r *redises.Servers, kind string) {
	t.worked = r.Worked
	if kind != redisCluster {
		t.written = r.Written
	}
}

// redisPeers returns limiters over Redis. Each of them is measured with both settings of Redis's
// append-only file, and redis_rate also over a cluster and with go-redis' pipelining of calls.
func redisPeers() (all []*subject) {
	for _, k := range redisKinds {
		server := k.kind
		for _, p := range []struct {
			name string
			open func(r *redises.Servers) (tries, error)
		}{
			{"redis_rate", redisRate},
			{"redis_rate with AutoPipeline", redisRatePipelined},
			{"throttled", throttle},
			{"ulule/limiter", fixedWindow},
		} {
			against := "redis_rate" + k.suffix
			if p.name == "redis_rate" {
				against = "bare UPDATE"
			} else if server == redisCluster {
				continue
			}
			all = append(all, &subject{
				name: p.name + k.suffix, group: peer, keeps: server, against: against, server: server,
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
						rush: try.rush, tolerant: try.tolerant, close: func() error { return nil },
					}
					t.measures(r, server)
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

func redisRate(r *redises.Servers) (tries, error) {
	return allow(redis_rate.NewLimiter(r.Client), ""), nil
}

func redisRatePipelined(r *redises.Servers) (tries, error) {
	pipelined, err := r.Client.AutoPipeline()
	if err != nil {
		return tries{}, err
	}
	return allow(redis_rate.NewLimiter(pipelined), "pipelined:"), nil
}

// allow decides with redis_rate, under keys of its own.
func allow(lim *redis_rate.Limiter, prefix string) tries {
	try := func(limit redis_rate.Limit) func(context.Context, string) (bool, error) {
		return func(ctx context.Context, key string) (bool, error) {
			res, err := lim.Allow(ctx, prefix+key, limit)
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
	}
}

// throttle opens throttled with its defaults. On a busy key throttled gives up after ten
// attempts, with an error that is neither an acceptance nor a refusal.
func throttle(r *redises.Servers) (tries, error) {
	st, err := goredisstore.NewCtx(r.Client, "throttled:")
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

func fixedWindow(r *redises.Servers) (tries, error) {
	var errs error
	try := func(name string, limit int64, window time.Duration) func(context.Context, string) (bool, error) {
		st, err := ululeredis.NewStoreWithOptions(r.Client, ulule.StoreOptions{Prefix: fmt.Sprintf("ulule-%s", name)})
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
