// Package redises starts Redis servers for measurements, and reads their figures.
package redises

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

// Servers are servers that this program has started: one, or the primaries of a cluster.
type Servers struct {
	Client redis.UniversalClient // with a pool of connections to each server
	Each   []*redis.Client       // one for each server, for its figures
	stop   func() error
}

// Start starts a server, or a cluster of three primaries. pool is the number of connections of the
// client to each server. Each element of conf is a line of configuration.
func Start(ctx context.Context, cluster bool, pool int, conf ...string) (*Servers, error) {
	r := &Servers{}
	var addrs []string
	if cluster {
		c, err := redistest.LaunchCluster(false, conf...)
		if err != nil {
			return nil, err
		}
		addrs, r.stop = c.Addrs(), c.Close
		r.Client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, PoolSize: pool, PoolTimeout: time.Minute, ReadTimeout: time.Minute, ContextTimeoutEnabled: true,
		})
	} else {
		s, err := redistest.Launch(conf...)
		if err != nil {
			return nil, err
		}
		addrs, r.stop = []string{s.Addr()}, s.Close
		r.Client = Connect(s.Addr(), pool)
	}
	for _, addr := range addrs {
		r.Each = append(r.Each, redis.NewClient(&redis.Options{Addr: addr}))
	}
	if err := r.Client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Connect returns a new client of the server at addr, with pool connections at most.
func Connect(addr string, pool int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: pool, PoolTimeout: time.Minute, ReadTimeout: time.Minute, ContextTimeoutEnabled: true,
	})
}

// Figures of INFO.
var (
	AOFSize    = regexp.MustCompile(`(?m)^aof_current_size:(\d+)`)
	version    = regexp.MustCompile(`(?m)^redis_version:(\S+)`)
	usedMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)
	// The parts of the memory that do not hold keys.
	clientMemory = regexp.MustCompile(`(?m)^mem_clients_normal:(\d+)`)
	aofMemory    = regexp.MustCompile(`(?m)^mem_aof_buffer:(\d+)`)
	// Scripts is the number of scripts that were run by their hash.
	Scripts = regexp.MustCompile(`(?m)^cmdstat_evalsha:calls=(\d+)`)
	// ScriptP99 is the 99th percentile of the time of such a script, in microseconds, since the
	// statistics were reset. Redis 7 reports it.
	ScriptP99  = regexp.MustCompile(`(?m)^latency_percentiles_usec_evalsha:.*p99=([\d.]+)`)
	usedSystem = regexp.MustCompile(`(?m)^used_cpu_sys:([\d.]+)`)
	usedUser   = regexp.MustCompile(`(?m)^used_cpu_user:([\d.]+)`)
)

// Sum returns the sum of some figures of all servers.
func (r *Servers) Sum(ctx context.Context, figures ...*regexp.Regexp) (sum float64, err error) {
	for _, c := range r.Each {
		info, err := c.Info(ctx, "all").Result()
		if err != nil {
			return 0, err
		}
		for _, f := range figures {
			v, err := Figure(info, f)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, nil
}

// Figure returns a figure of an answer to INFO.
func Figure(info string, figure *regexp.Regexp) (float64, error) {
	m := figure.FindStringSubmatch(info)
	if m == nil {
		return 0, fmt.Errorf("redis reports nothing like %s", figure)
	}
	return strconv.ParseFloat(m[1], 64)
}

// Memory returns the memory that the servers use, in bytes, without the buffers of their clients
// and of the append-only file. Those change from moment to moment.
func (r *Servers) Memory(ctx context.Context) (float64, error) {
	used, err := r.Sum(ctx, usedMemory)
	if err != nil {
		return 0, err
	}
	buffers, err := r.Sum(ctx, clientMemory, aofMemory)
	return used - buffers, err
}

// Written returns the size of the append-only file in bytes.
func (r *Servers) Written(ctx context.Context) (int64, error) {
	n, err := r.Sum(ctx, AOFSize)
	return int64(n), err
}

// Worked returns the time that the servers have computed.
func (r *Servers) Worked(ctx context.Context) (time.Duration, error) {
	s, err := r.Sum(ctx, usedSystem, usedUser)
	return time.Duration(s * float64(time.Second)), err
}

// Version returns the version of the servers.
func (r *Servers) Version(ctx context.Context) (string, error) {
	info, err := r.Each[0].Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	m := version.FindStringSubmatch(info)
	if m == nil {
		return "", errors.New("redis reports no version")
	}
	return m[1], nil
}

// Close ends the servers.
func (r *Servers) Close() error {
	errs := []error{r.Client.Close()}
	for _, c := range r.Each {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.stop())...)
}
