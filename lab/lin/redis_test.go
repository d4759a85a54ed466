package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
)

// silence is the time after which a client gives up a connection that is silent.
const silence = time.Second

func newClient(t *testing.T, o *redis.Options) *redis.Client {
	o.DialerRetries, o.ReadTimeout = 1, silence
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// struck returns a keyspace on servers that faults hit.
func struck(t *testing.T, servers []*redistest.Server, faults ...fault) *keyspace {
	in := &keyspace{patient: silence, strikes: 1, sure: true, faults: faults}
	for _, s := range servers {
		in.servers = append(in.servers, newClient(t, &redis.Options{Addr: s.Addr()}))
	}
	return in
}

// always has the server sync its append-only file before it answers.
var always = []string{"appendonly yes", "appendfsync always"}

// newLone returns a server that is killed. The system keeps all that it has written to its file.
func newLone(t *testing.T, conf ...string) func() *keyspace {
	return lazily(func() *keyspace {
		s := redistest.NewServer(t, conf...)
		in := struck(t, []*redistest.Server{s}, func(w *remote, b *blow) error {
			b.soon()
			w.in.down.Store(true)
			defer w.in.down.Store(false)
			return errors.Join(s.Kill(), s.Start())
		})
		in.url, in.slow, in.direct = s.URL(), true, in.servers[0]
		return in
	})
}

// pair is a primary and its replica, which take each other's place. Clients dial the server that is
// the primary at that time, as Sentinel tells them.
type pair struct {
	primary, replica *redistest.Server
	addr             atomic.Value // of the primary
	direct           *dialed
}

// newPair returns a pair. Its writes wait for so many replicas.
func newPair(t *testing.T, replicas int, how func(*pair, *remote, *blow) error) func() *keyspace {
	return lazily(func() *keyspace {
		p := &pair{primary: redistest.NewServer(t, "repl-diskless-sync-delay 0")}
		p.replica = redistest.NewReplica(t, p.primary, "repl-diskless-sync-delay 0")
		p.addr.Store(p.primary.Addr())
		in := struck(t, []*redistest.Server{p.primary, p.replica}, func(w *remote, b *blow) error { return how(p, w, b) })
		in.addr = func() string { return p.addr.Load().(string) }
		p.direct = &dialed{addr: in.addr}
		in.direct, in.replica = newClient(t, &redis.Options{Dialer: p.direct.dial}), replicas
		return in
	})
}

// command sends a command to a server.
func command(s *redistest.Server, args ...any) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	return c.Do(ctx, args...).Err()
}

// promote makes the replica the primary. The old one does not know.
func (p *pair) promote() error {
	err := command(p.replica, "REPLICAOF", "NO", "ONE")
	p.primary, p.replica = p.replica, p.primary
	p.addr.Store(p.primary.Addr())
	p.direct.hangUp() // the old primary would answer it as a replica
	return err
}

// follow waits until the replica has all data of the primary.
func (p *pair) follow() error {
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	return p.replica.Follows(ctx)
}

func portOf(s *redistest.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr()) // the server has bound it
	return port
}

// failOver kills the primary. It comes back as the replica of its replica.
func failOver(p *pair, _ *remote, b *blow) error {
	b.soon()
	err := errors.Join(p.primary.Kill(), p.promote())
	return errors.Join(err, p.replica.Start("replicaof 127.0.0.1 "+portOf(p.primary)), p.follow())
}

// stopPrimary stops the primary until its replica has taken over. It goes on for some time with the
// clients that have not heard of that, and then becomes the replica and ends their connections, as
// Sentinel has it do.
func stopPrimary(p *pair, w *remote, b *blow) error {
	b.split = true
	b.soon()
	err := p.primary.Pause()
	time.Sleep(time.Duration(b.r.IntN(20)) * time.Millisecond)
	err = errors.Join(err, p.promote())
	if b.r.IntN(2) == 0 {
		w.own.hangUp() // the clients have heard of it
	}
	err = errors.Join(err, p.replica.Resume())
	time.Sleep(time.Duration(b.r.IntN(40)) * time.Millisecond)
	err = errors.Join(err, command(p.replica, "REPLICAOF", "127.0.0.1", portOf(p.primary)), p.follow())
	return errors.Join(err, command(p.replica, "CLIENT", "KILL", "TYPE", "normal"))
}

// sharded is a cluster of three primaries and their replicas.
type sharded struct {
	servers []*redistest.Server
	admin   *redis.ClusterClient
}

// clusterPatience is the time that a fault of the cluster may take, also on a busy machine.
const clusterPatience = 3 * time.Minute

// newCluster returns a cluster. Histories have their keys in one slot, or in many.
func newCluster(t *testing.T, faults ...func(*sharded, *remote, *blow) error) func() *keyspace {
	return lazily(func() *keyspace {
		c := redistest.NewCluster(t)
		connect := func(timeout time.Duration) *redis.ClusterClient {
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), DialerRetries: 1, ReadTimeout: timeout})
			t.Cleanup(func() { _ = client.Close() })
			return client
		}
		s := &sharded{servers: c.Servers, admin: connect(clusterPatience)} // a resharding must not end half done
		in := struck(t, c.Servers)
		for _, f := range faults {
			in.faults = append(in.faults, func(w *remote, b *blow) error {
				b.soon()
				return f(s, w, b)
			})
		}
		in.direct, in.cluster, in.replica = connect(silence), c.Addrs(), 1
		return in
	})
}

// keyOf returns the name of the key of a random bucket.
func (w *remote) keyOf(r *rand.Rand) string { return w.root + w.bucket(r.IntN(keys)).Key }

// reshard moves the slot of a bucket, key by key.
func reshard(s *sharded, w *remote, b *blow) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	slot, err := s.admin.ClusterKeySlot(ctx, w.keyOf(b.r)).Result()
	if err != nil {
		return err
	}
	s.admin.ReloadState(ctx)
	return redistest.MoveSlot(ctx, s.admin, int(slot))
}

// leaveBehind removes a bucket, as if its slot had moved without it.
func leaveBehind(s *sharded, w *remote, b *blow) error {
	return s.admin.Del(context.Background(), w.keyOf(b.r)).Err()
}

func handOver(s *sharded, _ *remote, b *blow) error {
	nothing := func(shard) error { return nil }
	return s.takeOver(b.r, []any{"CLUSTER", "FAILOVER"}, nothing, nothing)
}

func killPrimary(s *sharded, _ *remote, b *blow) error {
	return s.takeOver(b.r, []any{"CLUSTER", "FAILOVER", "TAKEOVER"},
		func(s shard) error { return s.primary.Kill() }, func(s shard) error { return s.primary.Start() })
}

// shard is a primary and its replica.
type shard struct{ primary, replica *redistest.Server }

// shards returns the primaries and replicas of the moment.
func (s *sharded) shards(ctx context.Context) ([]shard, error) {
	byPort := make(map[string]*redistest.Server)
	for _, s := range s.servers {
		byPort[portOf(s)] = s
	}
	var all []shard
	for _, s := range s.servers {
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

// takeOver has the replica of a random shard take over by a command. before is done to the shard
// first, and after when the replica is the primary. It waits until the old primary follows.
func (s *sharded) takeOver(pick *rand.Rand, how []any, before, after func(shard) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	all, err := s.shards(ctx)
	if err != nil {
		return err
	}
	one := all[pick.IntN(len(all))]
	if err := before(one); err != nil {
		return err
	}
	// A replica refuses WAIT. It drops a fail-over that the others do not vote for in time.
	for n := 0; command(one.replica, "WAIT", 0, 1) != nil && ctx.Err() == nil; n++ {
		if n%1000 == 0 {
			err = command(one.replica, how...)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil || ctx.Err() != nil {
		return fmt.Errorf("%v: %w", how, errors.Join(err, ctx.Err()))
	}
	return errors.Join(after(one), s.rest(ctx))
}

// rest waits until all replicas follow and every server knows three primaries that answer.
func (s *sharded) rest(ctx context.Context) error {
	for ; ; time.Sleep(10 * time.Millisecond) {
		all, err := s.shards(ctx)
		for _, one := range all {
			err = errors.Join(err, one.replica.Follows(ctx))
		}
		for _, one := range s.servers {
			c := redis.NewClient(&redis.Options{Addr: one.Addr()})
			info, failed := c.ClusterInfo(ctx).Result()
			_ = c.Close()
			if failed == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_fail:0")) {
				failed = errors.New("the cluster is down for a server")
			}
			err = errors.Join(err, failed)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}
