package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/redisstore"
)

// prefixes of keys in a cluster.
const (
	tagged = "{load}:" // all keys are in one slot
	spread = "load:"
)

// sharded is a cluster of three primaries and their replicas.
type sharded struct {
	rig
	cluster *redistest.Cluster
	admin   *redis.ClusterClient
}

func newSharded(t *testing.T) *sharded {
	t.Helper()
	r := &sharded{cluster: redistest.NewCluster(t)}
	r.t = t
	r.admin = r.connect(clusterPatience) // a resharding must not end half done
	return r
}

func (r *sharded) connect(timeout time.Duration) *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: r.cluster.Addrs(), DialerRetries: 1, ReadTimeout: timeout})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// over returns the subject of a store with a prefix that waits for a replica.
func (r *sharded) over(prefix string) *serverload.Buckets {
	attacked := r.store(r.connect(patience), redisstore.Options{Prefix: prefix, Replicas: 1})
	sound := r.store(r.connect(patience), redisstore.Options{Prefix: prefix})
	return &serverload.Buckets{Store: attacked, Sound: sound, Single: prefix == spread}
}

// keyOf returns the key of a bucket of the load.
func keyOf(s serverload.Subject, pick *rand.Rand, calls []serverload.Call) string {
	prefix := tagged
	if b, ok := s.(*serverload.Buckets); ok && b.Single {
		prefix = spread
	}
	return prefix + calls[pick.IntN(len(calls))].Places[0].Key
}

// target attacks stores with keys in one slot and in many.
func (r *sharded) target() target {
	return target{&r.rig, []serverload.Subject{r.over(tagged), r.over(spread)}, r.attacks}
}

func (r *sharded) attacks(s serverload.Subject) []damage {
	move := damage{"resharding", func(pick *rand.Rand, calls []serverload.Call) error {
		defer r.mended(time.Now())
		ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
		defer cancel()
		slot, err := r.admin.ClusterKeySlot(ctx, keyOf(s, pick, calls)).Result()
		if err != nil {
			return err
		}
		r.admin.ReloadState(ctx)
		return redistest.MoveSlot(ctx, r.admin, int(slot))
	}}
	return []damage{move, move, {"fail-over that was asked for", r.handOver}, {"kill of a primary", r.killPrimary}}
}

// clusterPatience is the time that an attack on the cluster may take, also on a busy machine.
const clusterPatience = 3 * time.Minute

// shard is a primary and its replica.
type shard struct{ primary, replica *redistest.Server }

// shards returns the primaries and replicas of the moment.
func (r *sharded) shards(ctx context.Context) ([]shard, error) {
	byPort := make(map[string]*redistest.Server)
	for _, s := range r.cluster.Servers {
		byPort[portOf(s)] = s
	}
	var all []shard
	for _, s := range r.cluster.Servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		role, err := c.Do(ctx, "ROLE").Slice()
		_ = c.Close()
		if err != nil {
			return nil, err
		}
		if role[0] == "slave" {
			all = append(all, shard{byPort[fmt.Sprint(role[2])], s})
		}
	}
	if len(all) != redistest.Primaries {
		return nil, fmt.Errorf("%d replicas, want %d", len(all), redistest.Primaries)
	}
	return all, nil
}

func portOf(s *redistest.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr()) // the server has bound it
	return port
}

// takeOver has the replica of a random shard take over by a command. before is done to the shard
// first, and after when the replica is the primary. It waits until the old primary follows.
func (r *sharded) takeOver(pick *rand.Rand, how []any, before, after func(shard) error) error {
	defer r.mended(time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	all, err := r.shards(ctx)
	if err != nil {
		return err
	}
	s := all[pick.IntN(len(all))]
	if err := before(s); err != nil {
		return err
	}
	// A replica refuses WAIT. It drops a fail-over that the others do not vote for in time.
	for n := 0; command(s.replica, "WAIT", 0, 1) != nil && ctx.Err() == nil; n++ {
		if n%1000 == 0 {
			err = command(s.replica, how...)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil || ctx.Err() != nil {
		return fmt.Errorf("%v: %w", how, errors.Join(err, ctx.Err()))
	}
	return errors.Join(after(s), r.settle(ctx))
}

// settle waits until all replicas follow and every server knows the primaries.
func (r *sharded) settle(ctx context.Context) error {
	for ; ; time.Sleep(10 * time.Millisecond) {
		all, err := r.shards(ctx)
		if err == nil {
			for _, s := range all {
				err = errors.Join(err, s.replica.Follows(ctx))
			}
			for _, s := range r.cluster.Servers {
				err = errors.Join(err, knows(ctx, s))
			}
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// knows returns nil if the server knows three primaries that answer.
func knows(ctx context.Context, s *redistest.Server) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	info, err := c.ClusterInfo(ctx).Result()
	if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_fail:0")) {
		err = errors.New("the cluster is down for a server")
	}
	return err
}

func nothing(shard) error { return nil }

func (r *sharded) handOver(pick *rand.Rand, _ []serverload.Call) error {
	return r.takeOver(pick, []any{"CLUSTER", "FAILOVER"}, nothing, nothing)
}

func (r *sharded) killPrimary(pick *rand.Rand, _ []serverload.Call) error {
	return r.takeOver(pick, []any{"CLUSTER", "FAILOVER", "TAKEOVER"},
		func(s shard) error { return s.primary.Kill() }, func(s shard) error { return s.primary.Start() })
}
