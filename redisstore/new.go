package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"regexp"
	"strconv"
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
// full; see [Options.AllowEviction]. If a server forbids the question, New logs that and goes on.
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
		return nil, wrap("new", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	if err := s.primaries(ctx, func(c *redis.Client) error { return s.check(ctx, c) }); err != nil {
		return nil, wrap("new", err)
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

// noEviction is the only maxmemory-policy that never removes a bucket.
const noEviction = "noeviction"

// check returns an error if the promises of the store would not hold on a server.
func (s *Store) check(ctx context.Context, c *redis.Client) error {
	info, err := ask(ctx, s, c, redis.NewStringCmd, "info", "server").Result()
	switch forbidden, err := s.explainCheck(err, "INFO", "its version"); {
	case err != nil:
		return err
	case !forbidden:
		if err := s.checkVersion(info); err != nil {
			return err
		}
	}
	config := make(map[string]string)
	for _, name := range []string{"maxmemory-policy", "appendonly"} {
		got, err := ask(ctx, s, c, redis.NewMapStringStringCmd, "config", "get", name).Result()
		switch forbidden, err := s.explainCheck(err, "CONFIG GET", "whether it evicts keys, and persists them"); {
		case err != nil:
			return err
		case forbidden:
			return nil
		}
		config[name] = got[name]
	}
	if s.o.Synced && config["appendonly"] == "no" {
		return errors.New("Options.Synced needs an append-only file, and the server's appendonly is no")
	}
	if p := config["maxmemory-policy"]; p != noEviction && !s.o.AllowEviction {
		return fmt.Errorf("the server's maxmemory-policy is %q: it removes keys when its memory is full, and a bucket "+
			"then forgets what was taken; set it to noeviction, or Options.AllowEviction", p)
	}
	return nil
}

// explainCheck reports that the server forbids a command of check, and logs it; or returns the
// error of a server that gives no answer.
func (s *Store) explainCheck(err error, command, question string) (forbidden bool, _ error) {
	var answer redis.Error
	switch {
	case err == nil:
		return false, nil
	case !errors.As(err, &answer):
		return false, explain(store.ErrUnavailable, err, s.patience)
	case redis.IsAuthError(err), redis.IsLoadingError(err):
		return false, explain(store.ErrUnavailable, err, s.patience)
	}
	s.o.Logger.Warn(backend+": could not ask the server "+question, "command", command,
		"error", explain(store.ErrUnavailable, err, s.patience))
	return true, nil
}

var (
	versionLine = regexp.MustCompile(`(?m)^redis_version:(\d+)\.(\d+)`)
	modeLine    = regexp.MustCompile(`(?m)^(?:redis|server)_mode:cluster`)
)

// checkVersion reads the answer to INFO. Valkey reports the version of Redis that it replaces.
func (s *Store) checkVersion(info string) error {
	if s.cluster == nil && modeLine.MatchString(info) {
		return errors.New("the server is part of a cluster; make the client by redis.NewClusterClient")
	}
	m := versionLine.FindStringSubmatch(info)
	if m == nil {
		return nil // a compatible server that does not tell; it shows in the first call
	}
	major, _ := strconv.Atoi(m[1]) // digits
	minor, _ := strconv.Atoi(m[2])
	switch than := func(a, b int) bool { return major < a || major == a && minor < b }; {
	case than(6, 2):
		return fmt.Errorf("the server is Redis %s.%s; the oldest that works is 6.2", m[1], m[2])
	case s.o.Synced && than(7, 2):
		return fmt.Errorf("Options.Synced needs WAITAOF of Redis 7.2, and the server is Redis %s; "+
			"set appendfsync to always instead", strings.TrimSpace(m[1]+"."+m[2]))
	}
	return nil
}
