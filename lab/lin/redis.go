package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/redisstore"
)

// keyspace is a Redis, of one server or several. Histories use it at the same time, each with a
// prefix of its own, unless a fault hits a server.
type keyspace struct {
	servers []*redis.Client       // all, each by itself
	direct  redis.UniversalClient // whose connections nothing cuts
	url     string                // of the server behind a tap; or empty
	slow    bool                  // the tap may be slow
	addr    func() string         // of the primary of the moment, without a tap
	cluster []string              // the addresses of a cluster; or nil
	patient time.Duration         // the clients' ReadTimeout
	replica int                   // number of replicas that writes wait for
	faults  []fault
	strikes int // at most, in a history
	sure    bool
	down    atomic.Bool  // from a kill to the recovery
	used    atomic.Int64 // names so far
}

// newReached returns a world in Redis, with the history's clock, or that of the server.
func newReached(in *keyspace, r *rand.Rand, clocked bool) (w *remote, err error) {
	w = &remote{in: in, own: &dialed{addr: in.addr}, faults: in.faults, strikes: in.strikes, sure: in.sure}
	name := fmt.Sprintf("lin-%d", in.used.Add(1)) // of the connections
	o := redisstore.Options{Prefix: name + ":", Replicas: in.replica}
	w.single = in.cluster != nil && r.IntN(2) == 0
	if in.cluster != nil && !w.single {
		o.Prefix = "{" + name + "}:" // all keys are in one slot
	}
	if in.patient > redisstore.DefaultCallTimeout {
		o.CallTimeout = in.patient
	}
	if clocked {
		if w.clk, o.Clock, err = newShared(); err != nil {
			return nil, err
		}
	}
	if in.url != "" {
		if w.tap, err = newTap(in.url, in.slow && r.IntN(2) == 0, &in.down); err != nil {
			return nil, err
		}
		w.own.addr = w.tap.addr
	}
	var clients []redis.UniversalClient
	for range 2 { // as two processes
		var c redis.UniversalClient
		if in.cluster != nil {
			c = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: in.cluster, ClientName: name, Dialer: w.own.dial, DialerRetries: 1, ReadTimeout: in.patient,
			})
		} else {
			c = redis.NewClient(&redis.Options{ClientName: name, Dialer: w.own.dial, DialerRetries: 1, ReadTimeout: in.patient})
		}
		s, err := redisstore.New(c, &o)
		if err != nil {
			return nil, err
		}
		clients, w.below = append(clients, c), append(w.below, s)
	}
	w.quiet = func() (err error) {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return errors.Join(err, in.ended(name, w.own.hangUp))
	}
	w.free = func() error {
		if w.tap == nil {
			return nil
		}
		return w.tap.Close()
	}
	o.Replicas = 0
	w.root = o.Prefix
	w.after, err = redisstore.New(in.direct, &o)
	return w, err
}

// ended hangs up until no server has a connection of that name. A server may still carry out a
// command that it has received until then, although nobody waits for its answer any more.
func (in *keyspace) ended(name string, hangUp func()) error {
	return eventually("all connections have ended", func() (bool, error) {
		hangUp()
		for _, c := range in.servers {
			list, err := c.ClientList(context.Background()).Result()
			if err != nil || strings.Contains(list, " name="+name+" ") {
				return false, err
			}
		}
		return true, nil
	})
}

// inRedis returns stores over one prefix. In some histories the clock belongs to the history.
func inRedis(in func() *keyspace, join joining) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, err := newReached(in(), r, join == nil && r.IntN(2) == 0)
		if err != nil {
			return nil, plan{}, err
		}
		p, err := w.plan(r, join, style{})
		return w, p, err
	}
}

// cutsOfRedis cut a connection at a random byte, close all of them, or have the server forget its
// scripts. Each breaks connections at one moment: a second one would meet calls that nobody has
// counted.
var cutsOfRedis = []fault{
	func(w *remote, b *blow) error {
		w.tap.cutSoon(b.r, wire.ToServer, 2000, soon/4)
		return nil
	},
	func(w *remote, b *blow) error {
		w.tap.cutSoon(b.r, wire.ToClient, 500, soon/4)
		return nil
	},
	func(w *remote, _ *blow) error {
		w.own.hangUp()
		return nil
	},
	func(w *remote, _ *blow) error {
		return w.in.servers[0].ScriptFlush(context.Background()).Err()
	},
}
