package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/supervisor"
)

// Primaries is the number of primaries in a cluster.
const Primaries = 3

// slots is the number of hash slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster of 3 primaries that this process started. Only one goroutine at a time
// may call its methods.
type Cluster struct {
	// Servers are the primaries in the order of their slots, and then their replicas, if any, in
	// the same order. After a fail-over the roles are others.
	Servers []*Server
}

// NewCluster starts a cluster with 3 replicas for t alone and closes it at the end of t. Each
// element of conf is a line of configuration for every server.
func NewCluster(t testing.TB, conf ...string) *Cluster {
	t.Helper()
	skipShort(t)
	c, err := LaunchCluster(true, conf...)
	return supervisor.CloseAfter(t, c, err)
}

// LaunchCluster starts a cluster for callers that have no testing.TB. Each primary has one
// replica if replicas is set. The cluster ends with Close, or with this process.
func LaunchCluster(replicas bool, conf ...string) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	conf = append([]string{
		"cluster-enabled yes", "cluster-node-timeout 5000", "repl-diskless-sync-delay 0",
		// The cluster names a replica only when something has been replicated, a ping for instance.
		"repl-ping-replica-period 1",
	}, conf...)
	servers := Primaries
	if replicas {
		servers *= 2
	}
	for range servers {
		s, err := Launch(conf...)
		if err != nil {
			return nil, err
		}
		c.Servers = append(c.Servers, s)
	}
	clients := make([]*redis.Client, len(c.Servers))
	for i, s := range c.Servers {
		clients[i] = redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer func() { err = errors.Join(err, clients[i].Close()) }()
	}
	return c, Join(clients, c.Addrs())
}

// Join makes a cluster of empty servers. The first 3 become primaries, in the order of their slots.
// Each of the other 3, if there are any, becomes the replica of one of them, in the same order.
// addrs are the addresses at which the servers reach each other, with IP addresses.
func Join(clients []*redis.Client, addrs []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for i, client := range clients {
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		for _, other := range addrs[:i] { // all of them: gossip alone takes seconds
			host, port, err := net.SplitHostPort(other)
			if err != nil {
				return err
			}
			if err := client.ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	for i := range Primaries {
		var own []int
		for slot := i * slots / Primaries; slot < (i+1)*slots/Primaries; slot++ {
			own = append(own, slot)
		}
		if err := clients[i].ClusterAddSlots(ctx, own...).Err(); err != nil { // ADDSLOTSRANGE needs Redis 7
			return err
		}
	}
	for i := range len(clients) - Primaries {
		id, err := clients[i].ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := until(ctx, func() error { return clients[Primaries+i].ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return until(ctx, func() error { return agreed(ctx, clients) })
}

// agreed returns nil if every server knows all slots and both servers of each, and the replicas
// follow their primaries.
func agreed(ctx context.Context, clients []*redis.Client) error {
	for i, client := range clients {
		//lint:ignore SA1019 CLUSTER SHARDS needs Redis 7
		shards, err := client.ClusterSlots(ctx).Result() //nolint:staticcheck // see above
		if err != nil {
			return err
		}
		if len(shards) != Primaries {
			return fmt.Errorf("server %d knows %d ranges of slots, want %d", i, len(shards), Primaries)
		}
		for _, shard := range shards {
			if want := len(clients) / Primaries; len(shard.Nodes) != want {
				return fmt.Errorf("server %d knows %d servers of a range, want %d", i, len(shard.Nodes), want)
			}
		}
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("the cluster is down for server %d", i)
		}
		if len(clients) == Primaries {
			continue
		}
		if info, err = client.Info(ctx, "replication").Result(); err != nil {
			return err
		}
		if i < Primaries && !strings.Contains(info, "state=online") || i >= Primaries && !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("server %d does not replicate yet", i)
		}
	}
	return nil
}

// until calls f until it returns nil or ctx ends. It returns the last error of f.
func until(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Addrs returns the addresses of the servers.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Client returns a client with default options, which is closed at the end of t.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()}))
}

// Close kills the servers and removes their data.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.Servers))
	var wg sync.WaitGroup
	for i, s := range c.Servers {
		wg.Go(func() { errs[i] = s.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
