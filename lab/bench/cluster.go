package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/redisstore"
)

// sized returns brim's store over Redis with the batch size of the options, on keys that are
// filled.
func (b *bench) sized(ctx context.Context, r *redisServers, keys []string) (*opened, error) {
	t, err := over(redisstore.New(r.client, &redisstore.Options{BatchSize: b.batch}))
	if err != nil {
		return nil, err
	}
	t.full = nil
	o := &opened{&subject{name: "brim", group: ours, fills: 1}, t, &env{keys: keys}}
	if err := o.fill(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return o, nil
}

// cluster measures a decision on one, two and three primaries, with as many callers for each
// primary, and with as many in all. With all of them on one machine the sum of the decisions does
// not grow. The costs tell where it ends on more machines: a primary decides at most 10^6 / server
// µs a second.
func (b *bench) cluster(ctx context.Context) (err error) {
	single, err := startRedis(ctx, false, redisConf[redisCluster]...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, single.close()) }()
	cluster, err := startRedis(ctx, true, redisConf[redisCluster]...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	order, err := load.Draw("uniform", keyCount, 1, 0, 1)
	if err != nil {
		return err
	}
	var trials []contestant
	for primaries := range redistest.Primaries + 1 {
		name, r, used, keys := "one server, no cluster", single, single, b.keys
		if primaries > 0 {
			name = fmt.Sprintf("%d of a cluster's primaries", primaries)
			r, used = cluster, &redisServers{each: cluster.each[:primaries]}
			if keys, err = keysOn(ctx, cluster, primaries); err != nil {
				return err
			}
		}
		s, err := b.sized(ctx, r, keys)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		const each = 64
		callers := []int{each * max(1, primaries), each * redistest.Primaries}
		if callers[0] == callers[1] {
			callers = callers[:1]
		}
		for _, n := range callers {
			w := work{Options: load.Options{Callers: n, Order: order, Decide: s.decide}, strict: true}
			w.meters = []meter{{"server µs", used.sum(usedSystem, usedUser), 1e6}, {"client µs", ownTime, 1e6}, {"decisions in a script", used.sum(scripts), -1}}
			trials = append(trials, contestant{b.new("buckets on some primaries", fmt.Sprintf("%s, %d callers", name, n), ours, ""), w.trial})
		}
	}
	return b.contest(ctx, trials)
}

// keysOn returns keys whose buckets are on the first primaries.
func keysOn(ctx context.Context, r *redisServers, primaries int) (keys []string, err error) {
	client, ok := r.client.(*redis.ClusterClient)
	if !ok {
		return nil, fmt.Errorf("a %T is no client of a cluster", r.client)
	}
	wanted := make(map[string]bool)
	for _, c := range r.each[:primaries] {
		wanted[c.Options().Addr] = true
	}
	for i := 0; len(keys) < keyCount; i++ {
		key := "key" + strconv.Itoa(i)
		primary, err := client.MasterForKey(ctx, redisstore.DefaultPrefix+key)
		if err != nil {
			return nil, err
		}
		if wanted[primary.Options().Addr] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// ownTime returns the CPU time of this process in seconds.
func ownTime(context.Context) (float64, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds(), err
}

// beside has another process send GET 1,000 times a second to a server, while brim or redis_rate
// decides on the same server, or on another server of this machine. The latter takes the same CPU
// time from the GETs, and never stands before them in the server's queue.
func (b *bench) beside(ctx context.Context) (err error) {
	order, err := load.Draw("uniform", keyCount, 1, 0, 1)
	if err != nil {
		return err
	}
	var gets *child.Process
	var trials []contestant
	add := func(name, against string, load *load.Options, r *redisServers) {
		trials = append(trials, contestant{b.new("GET at 1,000/s", name, "", against), func(ctx context.Context, d time.Duration, to *row) error {
			return besideTrial(ctx, d, to, gets, load, r)
		}})
	}
	add("beside nothing", "", nil, nil)
	for i, where := range []string{" on another server", ""} {
		r, err := startRedis(ctx, false, redisConf[redisEverysec]...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		s, err := b.sized(ctx, r, b.keys)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		peer := &opened{&subject{}, allow(redis_rate.NewLimiter(r.client), ""), s.env}
		for _, l := range []struct {
			name    string
			callers int
			*opened
		}{{"brim", 64, s}, {"brim", 256, s}, {"redis_rate", 64, peer}} {
			name := fmt.Sprintf("beside %s, %d callers", l.name, l.callers)
			against, measured := name+" on another server", r
			if i == 0 {
				against, measured = "beside nothing", nil
			}
			add(name+where, against, &load.Options{Callers: l.callers, Order: order, Decide: l.decide}, measured)
		}
		if i == 1 {
			if gets, err = child.Start("gets", r.each[0].Options().Addr); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, gets.Close()) }()
		}
	}
	return b.contest(ctx, trials)
}

// Seen are quantiles of the answer times of the GETs of a trial, in milliseconds.
type Seen struct{ P50, P99 float64 }

// besideTrial measures the GETs for a time, beside a load. r, unless it is nil, is the server that
// has both.
func besideTrial(ctx context.Context, length time.Duration, to *row, gets *child.Process, o *load.Options, r *redisServers) error {
	if r != nil {
		if err := r.each[0].ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	var res *load.Result
	var loadErr error
	var wg sync.WaitGroup
	if o != nil {
		run := *o
		run.For = length + 200*time.Millisecond
		wg.Go(func() { res, loadErr = load.Run(ctx, run) })
	}
	time.Sleep(100 * time.Millisecond) // the load is under way
	var s Seen
	err := gets.Call("Measure", length, &s)
	wg.Wait()
	if err = errors.Join(err, loadErr); err != nil {
		return err
	}
	to.add("p50 ms", s.P50)
	to.add(p99Figure, s.P99)
	if res != nil {
		to.add("load's "+rateFigure, res.PerSecond())
	}
	if r != nil {
		v, err := r.sum(scriptP99)(ctx)
		if err != nil {
			return err
		}
		to.add("script p99 µs", v)
	}
	return nil
}

const getsPerSecond = 1000

// getWork sends GETs to a server.
type getWork struct{ client redis.UniversalClient }

// Open connects to the server at an address.
func (w *getWork) Open(addr string, _ *struct{}) error {
	w.client = connectRedis(addr)
	return nil
}

// Measure sends GETs for a time.
func (w *getWork) Measure(length time.Duration, s *Seen) error {
	res, err := load.RunOpen(context.Background(), load.Options{
		Callers: openCallers, For: length, Order: load.Order{0},
		Decide: func(ctx context.Context, _ int, _ bool) (bool, error) {
			err := w.client.Get(ctx, "plain").Err()
			if errors.Is(err, redis.Nil) {
				err = nil
			}
			return true, err
		},
	}, getsPerSecond)
	if err == nil {
		*s = Seen{res.Took.Quantile(0.5), res.Took.Quantile(0.99)}
	}
	return err
}

func (w *getWork) Close() error { return w.client.Close() }
