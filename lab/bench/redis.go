package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
)

// redisServers are servers that this program has started: one, or the primaries of a cluster.
type redisServers struct {
	client redis.UniversalClient
	each   []*redis.Client // one for each server, for its figures
	stop   func() error
}

// startRedis starts a server, or a cluster of three primaries. Each element of conf is a line of
// configuration.
func startRedis(ctx context.Context, cluster bool, conf ...string) (*redisServers, error) {
	r := &redisServers{}
	var addrs []string
	if cluster {
		c, err := redistest.LaunchCluster(false, conf...)
		if err != nil {
			return nil, err
		}
		addrs, r.stop = c.Addrs(), c.Close
	} else {
		s, err := redistest.Launch(conf...)
		if err != nil {
			return nil, err
		}
		addrs, r.stop = []string{s.Addr()}, s.Close
	}
	r.client = connectRedis(addrs...)
	for _, addr := range addrs {
		r.each = append(r.each, redis.NewClient(&redis.Options{Addr: addr}))
	}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// connectRedis returns a client of one server, or of a cluster.
func connectRedis(addrs ...string) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addrs, PoolSize: connections, PoolTimeout: time.Minute, ReadTimeout: time.Minute, ContextTimeoutEnabled: true,
	})
}

// Figures of INFO.
var (
	redisVersion = regexp.MustCompile(`(?m)^redis_version:(\S+)`)
	usedMemory   = regexp.MustCompile(`(?m)^used_memory:(\d+)`)
	// The parts of the memory that do not hold keys. They change from moment to moment.
	clientMemory = regexp.MustCompile(`(?m)^mem_clients_normal:(\d+)`)
	aofMemory    = regexp.MustCompile(`(?m)^mem_aof_buffer:(\d+)`)
	// scripts is the number of scripts that were run by their hash.
	scripts = regexp.MustCompile(`(?m)^cmdstat_evalsha:calls=(\d+)`)
	// scriptP99 is the 99th percentile of the time of such a script, in microseconds, since the
	// statistics were reset. Redis 7 reports it.
	scriptP99  = regexp.MustCompile(`(?m)^latency_percentiles_usec_evalsha:.*p99=([\d.]+)`)
	usedSystem = regexp.MustCompile(`(?m)^used_cpu_sys:([\d.]+)`)
	usedUser   = regexp.MustCompile(`(?m)^used_cpu_user:([\d.]+)`)
)

// text returns a figure of the first server.
func (r *redisServers) text(ctx context.Context, figure *regexp.Regexp) (string, error) {
	info, err := r.each[0].Info(ctx, "all").Result()
	if m := figure.FindStringSubmatch(info); m != nil {
		return m[1], err
	}
	return "", errors.Join(err, fmt.Errorf("redis reports nothing like %s", figure))
}

// sum returns a function that sums figures of all servers.
func (r *redisServers) sum(figures ...*regexp.Regexp) func(context.Context) (float64, error) {
	return func(ctx context.Context) (sum float64, err error) {
		for _, c := range r.each {
			one := &redisServers{each: []*redis.Client{c}}
			for _, f := range figures {
				text, err := one.text(ctx, f)
				if err != nil {
					return 0, err
				}
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					return 0, err
				}
				sum += v
			}
		}
		return sum, nil
	}
}

// close ends the servers.
func (r *redisServers) close() error {
	errs := []error{r.client.Close()}
	for _, c := range r.each {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.stop())...)
}
