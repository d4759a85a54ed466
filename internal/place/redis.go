package place

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/redisstore"
)

// maxPool and maxBuffer bound the sizes of a name's parameters, in connections and in bytes. The
// client allocates by them when it is made, and panics if they are absurd.
const (
	maxPool   = 100_000
	maxBuffer = 1 << 26
)

// parseOwn reads brim's parameters, and the checks that all names of Redis share. It returns the
// URL for the client, with another scheme.
func parseOwn(u *url.URL, t *target, scheme string) (*url.URL, error) {
	server := *u
	server.Scheme = scheme
	own, err := takeOwn(&server, "brim_allow_eviction", "brim_prefix", "brim_replicas", "brim_synced")
	if err != nil {
		return nil, err
	}
	t.options.Prefix = own["brim_prefix"]
	if text, ok := own["brim_replicas"]; ok {
		if t.options.Replicas, err = strconv.Atoi(text); err != nil || t.options.Replicas < 0 {
			return nil, errors.New("brim_replicas is not a number of replicas; write one like brim_replicas=1")
		}
	}
	for name, flag := range map[string]*bool{
		"brim_synced": &t.options.Synced, "brim_allow_eviction": &t.options.AllowEviction,
	} {
		if text, ok := own[name]; ok {
			if *flag, err = strconv.ParseBool(text); err != nil {
				return nil, fmt.Errorf("%s is neither true nor false", name)
			}
		}
	}
	if strings.Contains(u.Host, ",") {
		return nil, errors.New("it has several hosts; write the others as parameters, as in ?addr=host2:port2&addr=host3:port3")
	}
	// A host that is missing makes the number after the colon a port, and may be a password.
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("its port is not from 1 to 65535")
		}
	}
	return &server, nil
}

// sizes returns an error if the client would allocate absurdly much, or nothing.
func sizes(poolSize, minIdle, pipelinePool, dials int, buffers ...int) error {
	if poolSize < 0 || poolSize > maxPool || minIdle < 0 || minIdle > maxPool ||
		pipelinePool < -1 || pipelinePool > maxPool || dials < 0 || dials > maxPool {
		return fmt.Errorf("a number of connections in its parameters is not from 0 to %d", maxPool)
	}
	for _, n := range buffers {
		if n < 0 || n > maxBuffer {
			return fmt.Errorf("the size of a buffer in its parameters is not from 0 to %d", maxBuffer)
		}
	}
	return nil
}

// parseRedis reads redis:// and rediss://.
func parseRedis(u *url.URL, t *target) error {
	server, err := parseOwn(u, t, u.Scheme)
	if err != nil {
		return err
	}
	return t.single(server)
}

// parseUnix reads redis+unix://.
func parseUnix(u *url.URL, t *target) error {
	server, err := parseOwn(u, t, "unix")
	if err != nil {
		return err
	}
	if u.Host != "" {
		return errors.New("it has a host; a socket has three slashes, as in redis+unix:///path/of/socket")
	}
	return t.single(server)
}

func (t *target) single(server *url.URL) error {
	o, err := redis.ParseURL(server.String())
	if err != nil {
		return unreadable(err, server)
	}
	t.client = func(maxConns int) redis.UniversalClient {
		o := *o                        // the client writes into its options
		o.ContextTimeoutEnabled = true // the store's CallTimeout bounds each call, a new connection's greeting too
		if maxConns > 0 {
			o.PoolSize = min(maxConns, maxPool)
		}
		return redis.NewClient(&o)
	}
	return sizes(o.PoolSize, o.MinIdleConns, o.PipelinePoolSize, o.MaxConcurrentDials,
		o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
}

// plainScheme returns the scheme by which the client knows a cluster or a Sentinel.
func plainScheme(u *url.URL) string {
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	return scheme
}

// parseCluster reads redis+cluster:// and rediss+cluster://.
func parseCluster(u *url.URL, t *target) error {
	server, err := parseOwn(u, t, plainScheme(u))
	if err != nil {
		return err
	}
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
		return errors.New("it has a path; a cluster has no database but 0")
	}
	o, err := redis.ParseClusterURL(server.String())
	if err != nil {
		return unreadable(err, server)
	}
	t.client = func(maxConns int) redis.UniversalClient {
		o := *o
		o.ContextTimeoutEnabled = true
		if maxConns > 0 {
			o.PoolSize = min(maxConns, maxPool)
		}
		return redis.NewClusterClient(&o)
	}
	return sizes(o.PoolSize, o.MinIdleConns, o.PipelinePoolSize, o.MaxConcurrentDials,
		o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
}

// parseSentinel reads redis+sentinel:// and rediss+sentinel://.
func parseSentinel(u *url.URL, t *target) error {
	server, err := parseOwn(u, t, plainScheme(u))
	if err != nil {
		return err
	}
	o, err := redis.ParseFailoverURL(server.String())
	switch {
	case err != nil:
		return unreadable(err, server)
	case o.MasterName == "":
		return errors.New("the name under which the Sentinels know the primary is missing; add ?master_name=mymaster")
	case o.RouteByLatency, o.RouteRandomly, o.ReplicaOnly, o.UseDisconnectedReplicas:
		return errors.New("it sends commands to replicas, which are behind their primary; leave out route_by_latency, " +
			"route_randomly, replica_only and use_disconnected_replicas")
	}
	t.client = func(maxConns int) redis.UniversalClient {
		o := *o
		o.ContextTimeoutEnabled = true
		if maxConns > 0 {
			o.PoolSize = min(maxConns, maxPool)
		}
		return redis.NewFailoverClient(&o)
	}
	return sizes(o.PoolSize, o.MinIdleConns, o.PipelinePoolSize, o.MaxConcurrentDials,
		o.PipelineReadBufferSize, o.PipelineWriteBufferSize)
}

// Client returns a client for a place of kind [Redis], and the options of the store in it. It sends
// nothing, and the caller closes the client. maxConns is the largest number of connections to each
// server; 0 leaves it to the name.
func (p Place) Client(maxConns int) (redis.UniversalClient, redisstore.Options, error) {
	if p.kind != Redis {
		return nil, redisstore.Options{}, fmt.Errorf("a client needs a server of Redis, and this is: %v", p.kind)
	}
	return p.target.client(maxConns), p.target.options, nil
}
