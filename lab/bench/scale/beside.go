package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/lab/bench/internal/redises"
)

// neighbour is a subject: a load beside the GETs.
type neighbour struct {
	name      string
	callers   int // 0 for no load
	decide    decideFunc
	elsewhere *neighbour // the same load on the other server, if this one is on the server of the GETs

	rate, p50, p99, script []float64 // by turn
}

// beside measures GETs beside the loads.
func beside(ctx context.Context, length time.Duration, rounds, batch int) (_ *table.Table, err error) {
	keys := names(keyCount)
	var servers [2]*redises.Servers // the first one gets the GETs
	subjects := []*neighbour{{name: "nothing"}}
	var loads [2][]*neighbour
	for i := range servers {
		r, err := redises.Start(ctx, false, connections, "appendonly yes", "appendfsync everysec", "auto-aof-rewrite-percentage 0")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		servers[i] = r
		decide, closeStore, err := decider(r.Client, batch, keys)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeStore()) }()
		peer := redisRate(r.Client, keys)
		for _, d := range []decideFunc{decide, peer} {
			if err := d.warm(ctx); err != nil {
				return nil, err
			}
		}
		loads[i] = []*neighbour{
			{name: "brim", callers: 64, decide: decide},
			{name: "brim", callers: 256, decide: decide},
			{name: "redis_rate", callers: 64, decide: peer},
		}
	}
	for i, here := range loads[0] {
		here.elsewhere = loads[1][i]
		loads[1][i].name += " on another server"
		subjects = append(subjects, loads[1][i], here)
	}
	if err := servers[0].Client.Set(ctx, plainKey, "value", 0).Err(); err != nil {
		return nil, err
	}
	p, err := startProbe(ctx, servers[0].Each[0].Options().Addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	order, err := load.Draw("uniform", keyCount, 1, 0, 1)
	if err != nil {
		return nil, err
	}
	if err := load.Interleave(rounds, len(subjects), func(_, i int) error {
		return subjects[i].turn(ctx, servers[0], p, order, length)
	}); err != nil {
		return nil, err
	}
	t := table.Numeric("beside", "callers", "decisions/s", "script p99, µs", "GET p50, ms", "GET p99, ms", "p99 / beside nothing",
		"p99 / the load on another server")
	for _, s := range subjects {
		callers, rate, script, other := "", "", "", ""
		if s.callers > 0 {
			callers, rate = strconv.Itoa(s.callers), number(load.Median(s.rate))
		}
		if s.elsewhere != nil {
			ratio, _ := load.Ratio(s.p99, s.elsewhere.p99)
			script, other = number(load.Median(s.script)), number(ratio)
		}
		ratio, _ := load.Ratio(s.p99, subjects[0].p99)
		t.Add(s.name, callers, rate, script, number(load.Median(s.p50)), number(load.Median(s.p99)), number(ratio), other)
	}
	return t, nil
}

// redisRate returns a function that asks redis_rate for one unit.
func redisRate(client redis.UniversalClient, keys []string) decideFunc {
	lim := redis_rate.NewLimiter(client)
	return func(ctx context.Context, key int, _ bool) (bool, error) {
		res, err := lim.Allow(ctx, keys[key], redis_rate.Limit{Rate: 1e6, Burst: 1e6, Period: time.Second})
		return err == nil && res.Allowed == 1, err
	}
}

// turn measures the GETs for a time, beside the load of the subject.
func (s *neighbour) turn(ctx context.Context, r *redises.Servers, p *probe, order load.Order, length time.Duration) error {
	if err := r.Each[0].ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	var res *load.Result
	var loadErr error
	var wg sync.WaitGroup
	if s.callers > 0 {
		wg.Go(func() {
			res, loadErr = load.Run(ctx, load.Options{
				Callers: s.callers, For: length + 200*time.Millisecond, Order: order, Decide: s.decide,
			})
		})
	}
	time.Sleep(100 * time.Millisecond) // the load is under way
	seen, err := p.ask(length)
	wg.Wait()
	if err = errors.Join(err, loadErr); err != nil {
		return err
	}
	if want := length.Seconds() * probeRate; float64(seen.Count) < 0.9*want {
		return fmt.Errorf("%d GETs of %.0f were sent: the machine is too slow", seen.Count, want)
	}
	s.p50, s.p99 = append(s.p50, seen.P50), append(s.p99, seen.P99)
	if res != nil {
		s.rate = append(s.rate, res.PerSecond())
	}
	if s.elsewhere != nil {
		script, err := r.Sum(ctx, redises.ScriptP99)
		if err != nil {
			return err
		}
		s.script = append(s.script, script)
	}
	return nil
}
