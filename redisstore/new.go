package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// New returns a store over the caller's client: a [*redis.Client], also one that
// [redis.NewFailoverClient] has made for Sentinel, or a [*redis.ClusterClient]. Close does not
// close the client. o may be nil.
//
// New asks the server, or each primary of the cluster, for its version and its eviction policy. It
// fails if a server cannot be reached, is older than Redis 6.2, or evicts keys when its memory is
// full; see [Options.AllowEviction]. If a server refuses the question for good, New
// logs that and goes on. The error is [store.ErrUnavailable] if the server is out of reach or
// cannot answer now, and else [store.ErrMisconfigured].
//
// New refuses a client that waits for an answer for longer than [Options.CallTimeout], because it
// does without ContextTimeoutEnabled and has a longer ReadTimeout or WriteTimeout, or none.
//
// New refuses a [*redis.Ring]: when a server of a ring fails, the ring sends its buckets to another
// server, where they are empty. New refuses a cluster client with ReadOnly, RouteByLatency or
// RouteRandomly, because a replica is behind its primary.
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	s, err := newStore(client, o)
	if err != nil {
		return nil, wrap("new", explain(nil, err, 0))
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	if err := s.primaries(ctx, func(c *redis.Client) error { return s.check(ctx, c) }); err != nil {
		return nil, wrap("new", explain(nil, err, s.patience))
	}
	return s, nil
}

// newStore returns a store that has asked the servers nothing.
func newStore(client redis.UniversalClient, o *Options) (*Store, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{o: options, seed: maphash.MakeSeed()}
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the client is nil; make one with redis.NewClient")
	}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		if err := s.bound(o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled); err != nil {
			return nil, err
		}
		if s.single, err = newNode(s, c); err != nil {
			return nil, err
		}
	case *redis.ClusterClient:
		o := c.Options()
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, errors.New("the cluster client has ReadOnly, RouteByLatency or RouteRandomly, and so may ask " +
				"replicas, which are behind; make one without them")
		}
		if o.ReadTimeout <= 0 { // the client reloads its map without a context
			return nil, errors.New("the cluster client has no ReadTimeout, so a server that hangs would keep it from " +
				"learning where the buckets are; set ReadTimeout")
		}
		if err := s.bound(o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled); err != nil {
			return nil, err
		}
		s.cluster = &cluster{s: s, client: c}
	case *redis.Ring:
		return nil, errors.New("a Ring sends a bucket to another server when one fails, and the bucket is empty there; " +
			"use Redis Cluster")
	default:
		return nil, fmt.Errorf("the client is a %T; it must be a *redis.Client or a *redis.ClusterClient", client)
	}
	return s, nil
}

// errCluster is the error of a client for one server whose server is part of a cluster.
var errCluster = fmt.Errorf("%w: the server is part of a cluster; make the client by redis.NewClusterClient", store.ErrMisconfigured)

// noEviction is the only maxmemory-policy that never removes a bucket.
const noEviction = "noeviction"

// check returns an error if the promises of the store would not hold on a server.
func (s *Store) check(ctx context.Context, c *redis.Client) error {
	text, err := ask(ctx, s, c, redis.NewStringCmd, "info", "default").Result()
	info := fields(text)
	policy := info["maxmemory_policy"]
	switch answer := redis.Error(nil); {
	case err != nil && (!errors.As(err, &answer) || redis.IsAuthError(err) || read(answer).class == store.ErrUnavailable):
		return err
	case err != nil:
		s.o.Logger.Warn(backend+": could not ask the server its version, and whether it evicts keys", "command", "INFO",
			"error", explain(nil, err, s.patience))
		return nil
	case s.o.Synced && info["aof_enabled"] == "0":
		return errors.New("Options.Synced needs an append-only file, and the server's appendonly is no")
	case policy != "" && policy != noEviction && !s.o.AllowEviction:
		return fmt.Errorf("the server's maxmemory-policy is %q: it removes keys when its memory is full, and a bucket "+
			"then forgets what was taken; set it to noeviction, or Options.AllowEviction", policy)
	}
	return s.checkVersion(info)
}

// checkVersion reads the answer to INFO. Valkey reports the version of Redis that it replaces.
func (s *Store) checkVersion(info map[string]string) error {
	if s.cluster == nil && cmp.Or(info["redis_mode"], info["server_mode"]) == "cluster" {
		return errCluster
	}
	var major, minor int
	version := info["redis_version"]
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return nil // a compatible server that does not tell; it shows in the first call
	}
	switch than := func(a, b int) bool { return major < a || major == a && minor < b }; {
	case than(6, 2):
		return fmt.Errorf("the server is Redis %s; the oldest that works is 6.2", version)
	case s.o.Synced && than(7, 2):
		return fmt.Errorf("Options.Synced needs WAITAOF of Redis 7.2, and the server is Redis %s; "+
			"set appendfsync to always instead", version)
	}
	return nil
}

// fields reads the lines of the form name:value in an answer to INFO.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}
