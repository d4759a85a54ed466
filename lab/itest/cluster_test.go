package itest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// cluster is a cluster of Redis or Valkey of 3 primaries and 3 replicas, each server in a
// container.
type cluster struct {
	servers []testcontainers.Container // in the order of redistest.Join
	addrs   []string                   // of the servers, as they reach each other
	reach   map[string]string          // from such an address to the one that reaches it from here
}

// newCluster starts a cluster that ends with t.
func newCluster(t *testing.T, v version) *cluster {
	t.Helper()
	c := &cluster{reach: make(map[string]string)}
	var clients []*redis.Client
	for range 2 * redistest.Primaries {
		s, err := testcontainers.Run(t.Context(), v.image,
			testcontainers.WithExposedPorts("6379/tcp"),
			testcontainers.WithCmd(v.name+"-server", "--protected-mode", "no", "--save", "", "--repl-diskless-sync-delay", "0",
				"--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-require-full-coverage", "no"),
			testcontainers.WithWaitStrategyAndDeadline(2*time.Minute, wait.ForExec([]string{v.name + "-cli", "ping"})),
		)
		testcontainers.CleanupContainer(t, s)
		if err != nil {
			t.Fatal(err)
		}
		ip, err := s.ContainerIP(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		addr := net.JoinHostPort(ip, "6379")
		c.servers, c.addrs = append(c.servers, s), append(c.addrs, addr)
		c.reach[addr] = address(t, s, "6379/tcp")
		client := c.server(t, addr)
		clients = append(clients, client)
	}
	if err := redistest.Join(clients, c.addrs); err != nil {
		t.Fatal(err)
	}
	return c
}

// dial connects to a server by its address within the cluster.
func (c *cluster) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	reach, ok := c.reach[addr]
	if !ok {
		return nil, fmt.Errorf("no container has the address %s", addr)
	}
	return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, reach)
}

// server returns a client of one server, which is closed at the end of t.
func (c *cluster) server(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, Dialer: c.dial})
	t.Cleanup(func() { client.Close() })
	return client
}

// client returns a client of the cluster, which is closed at the end of t.
func (c *cluster) client(t *testing.T) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs, Dialer: c.dial, ReadTimeout: 2 * time.Second})
	t.Cleanup(func() { client.Close() })
	return client
}

// docker runs a command on the container of a server.
func (c *cluster) docker(t *testing.T, command string, server int) {
	t.Helper()
	if out, err := exec.Command("docker", command, c.servers[server].GetContainerID()).CombinedOutput(); err != nil {
		t.Fatalf("docker %s: %v\n%s", command, err, out)
	}
}

const (
	cutDeadline = 4 * time.Second  // of each call
	cutSlack    = 10 * time.Second // for a machine that is busy with other work
)

// filled is a bucket that one caller fills, and the number of its calls by outcome.
type filled struct {
	bucket              store.Bucket
	cut                 bool // whether its primary is cut off
	sure, unknown, none atomic.Int64
}

// While a primary is cut off, the others go on, and the calls for its buckets end within their
// deadline. After the fail-over they succeed. When the primary is back, each bucket has all fills
// that were acknowledged, and none twice.
//
// Until its replica has taken over, and from the return of the primary on, a fill is acknowledged
// when the replica has it. In between there is no replica that could have it.
func TestClusterPrimaryCutOff(t *testing.T) {
	forEachVersion(t, redisCluster, func(t *testing.T, v version) {
		c := newCluster(t, v)
		client := c.client(t)
		prefix := redistest.Prefix(t, client)
		replicated := newRedisStore(t, client, redisstore.Options{Prefix: prefix, Replicas: 1})
		alone := newRedisStore(t, client, redisstore.Options{Prefix: prefix})
		const cut, each = 0, 6
		all := c.buckets(t, client, prefix, c.addrs[cut], each)

		var current atomic.Pointer[store.Store]
		current.Store(&replicated)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, b := range all {
			wg.Go(func() {
				for ctx.Err() == nil && !t.Failed() {
					b.fill(t, *current.Load())
				}
			})
		}
		defer wg.Wait()
		defer stop()
		others := func(b *filled) bool { return !b.cut }
		reach(t, all, everyone, (*filled).accepted, 50)
		c.docker(t, "pause", cut)
		reach(t, all, others, (*filled).accepted, 50)
		reach(t, all, func(b *filled) bool { return b.cut }, (*filled).failed, 1)
		current.Store(&alone)
		reach(t, all, everyone, (*filled).accepted, 50)
		current.Store(&replicated)
		c.docker(t, "unpause", cut)
		reach(t, all, everyone, (*filled).accepted, 50)
		stop()
		wg.Wait()

		info, err := c.server(t, c.addrs[cut]).Info(t.Context(), "replication").Result()
		if err != nil || !strings.Contains(info, "role:slave") {
			t.Errorf("the server that was cut off is no replica: %v\n%s", err, info)
		}
		var sure, unknown, none int64
		for _, b := range all {
			b.check(t, alone)
			if b.cut {
				sure, unknown, none = sure+b.sure.Load(), unknown+b.unknown.Load(), none+b.none.Load()
			}
		}
		t.Logf("fills on the primary that was cut off: %d acknowledged, %d unknown, %d not applied", sure, unknown, none)
	})
}

// buckets returns as many buckets on each primary. Those on the server at addr will be cut off.
func (c *cluster) buckets(t *testing.T, client *redis.ClusterClient, prefix, addr string, each int) (all []*filled) {
	t.Helper()
	found := make(map[string]int)
	for n := 0; len(all) < redistest.Primaries*each; n++ {
		key := fmt.Sprint("bucket", n)
		primary, err := client.MasterForKey(t.Context(), prefix+key)
		if err != nil {
			t.Fatal(err)
		}
		at := primary.Options().Addr
		if found[at]++; found[at] <= each {
			all = append(all, &filled{bucket: store.Limit{Capacity: store.MaxAmount}.For(key), cut: at == addr})
		}
	}
	return all
}

// check compares the level with the outcomes.
func (b *filled) check(t *testing.T, s store.Store) {
	t.Helper()
	states, err := s.Read(t.Context(), b.bucket)
	if err != nil {
		t.Fatal(err)
	}
	least, most := b.sure.Load(), b.sure.Load()+b.unknown.Load()
	if level := int64(states[0].Level); level < least || level > most {
		t.Errorf("a bucket (cut off: %v) holds %d, want %d (acknowledged) to %d (with unknown outcomes)",
			b.cut, level, least, most)
	}
}

// fill makes one call and counts its outcome.
func (b *filled) fill(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), cutDeadline)
	defer cancel()
	began := time.Now()
	st, err := s.Fill(ctx, store.Op{Bucket: b.bucket, Amount: 1})
	if took := time.Since(began); took > cutDeadline+cutSlack {
		t.Errorf("a call with a deadline of %v took %v", cutDeadline, took)
	}
	switch {
	case err == nil && st.Accepted:
		b.sure.Add(1)
	case err == nil:
		t.Errorf("a bucket that cannot be full refused the fill: %+v", st)
	case errors.Is(err, store.ErrUnknownOutcome):
		b.unknown.Add(1)
	case !b.cut:
		t.Errorf("%v; want no such error from a primary that was not cut off", err)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		b.none.Add(1)
	default:
		t.Errorf("%v; want ErrUnknownOutcome or ErrUnavailable", err)
	}
}

func everyone(*filled) bool { return true }

func (b *filled) accepted() int64 { return b.sure.Load() }
func (b *filled) failed() int64   { return b.unknown.Load() + b.none.Load() }

// reach waits until the count of each of some buckets has grown.
func reach(t *testing.T, all []*filled, which func(*filled) bool, count func(*filled) int64, more int64) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	goal := make([]int64, len(all))
	for i, b := range all {
		goal[i] = count(b) + more
	}
	for i, b := range all {
		for which(b) && count(b) < goal[i] {
			if t.Failed() {
				t.FailNow()
			}
			if time.Now().After(deadline) {
				t.Fatalf("a bucket (cut off: %v) has %d calls of %d: %d acknowledged, %d unknown, %d not applied",
					b.cut, count(b), goal[i], b.sure.Load(), b.unknown.Load(), b.none.Load())
			}
			time.Sleep(time.Millisecond)
		}
	}
}
