package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/redisstore"
)

// rig is the part that all rigs share.
type rig struct {
	t       *testing.T
	sound   *redisstore.Store // reads what is there
	runs    int               // so far
	mending atomic.Int64      // nanoseconds from all attacks to the first answers after them
}

// scope returns a prefix of keys that no other run has.
func (r *rig) scope() string {
	r.runs++
	return fmt.Sprintf("%d/", r.runs)
}

// patience is the time after which a client gives up a connection that is silent.
const patience = time.Second

func (r *rig) client(o redis.Options) *redis.Client {
	r.t.Helper()
	o.DialerRetries, o.ReadTimeout = 1, patience
	c := redis.NewClient(&o)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) store(c redis.UniversalClient, o redisstore.Options) *redisstore.Store {
	r.t.Helper()
	s, err := redisstore.New(c, &o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// subject returns the subject of a store. An empty defect is none.
func (r *rig) subject(s *redisstore.Store, d serverload.Defect) *serverload.Buckets {
	return &serverload.Buckets{Store: &serverload.Spoiled{Store: s, Defect: d}, Sound: r.sound}
}

// mended notes the time of an attack that began then.
func (r *rig) mended(began time.Time) { r.mending.Add(int64(time.Since(began))) }

// target is a deployment under attack.
type target struct {
	*rig
	subjects []serverload.Subject
	attacks  func(s serverload.Subject) []damage // that suit a subject
}

// damage is an attack on the servers, and how to have them back.
type damage struct {
	name string
	do   func(pick *rand.Rand, calls []serverload.Call) error
}

// lone is a server that is killed, and a proxy before it that holds answers up: between a write and
// its answer there is then time for a kill. Answers that are under way are lost in the kill.
type lone struct {
	rig
	server *redistest.Server
	proxy  *wire.Proxy
	down   atomic.Bool // from a kill to the recovery
}

// delay is the longest time that the proxy holds up an answer.
const delay = 4 * time.Millisecond

func newLone(t *testing.T, conf ...string) *lone {
	t.Helper()
	r := &lone{server: redistest.NewServer(t, conf...)}
	r.t = t
	var err error
	r.proxy, err = wire.New(r.server.URL(), func(_ *wire.Link, d wire.Direction, piece []byte) wire.Fate {
		if d == wire.ToServer {
			return wire.Pass(piece)
		}
		time.Sleep(rand.N(delay)) // not by the seed, since the system's scheduler decides as much
		if r.down.Load() {
			return wire.Fate{End: wire.Close}
		}
		return wire.Pass(piece)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	r.sound = r.store(r.client(redis.Options{Addr: r.server.Addr()}), redisstore.Options{})
	return r
}

// direct returns a store that is connected to the server.
func (r *lone) direct() *redisstore.Store {
	return r.store(r.client(redis.Options{Addr: r.server.Addr()}), redisstore.Options{})
}

// slow returns a store that is connected through the proxy.
func (r *lone) slow() *redisstore.Store {
	r.t.Helper()
	u, err := url.Parse(r.proxy.URL())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.store(r.client(redis.Options{Addr: u.Host}), redisstore.Options{})
}

func (r *lone) kill(*rand.Rand, []serverload.Call) error {
	defer r.mended(time.Now())
	r.down.Store(true)
	defer r.down.Store(false)
	return errors.Join(r.server.Kill(), r.server.Start())
}

// target attacks subjects by kills.
func (r *lone) target(subjects ...serverload.Subject) target {
	return target{&r.rig, subjects, func(serverload.Subject) []damage { return []damage{{"kill of the server", r.kill}} }}
}

// pair is a primary and its replica, which take each other's place. Clients dial the server that is
// the primary at that time, as Sentinel tells them.
type pair struct {
	rig
	primary, replica *redistest.Server
	addr             atomic.Value       // of the primary
	dialed, sounds   *serverload.Dialed // connections of the stores under attack, and of the sound one
}

func newPair(t *testing.T) *pair {
	t.Helper()
	r := &pair{primary: redistest.NewServer(t, "repl-diskless-sync-delay 0")}
	r.replica = redistest.NewReplica(t, r.primary, "repl-diskless-sync-delay 0")
	r.t = t
	r.addr.Store(r.primary.Addr())
	addr := func() string { return r.addr.Load().(string) }
	r.dialed, r.sounds = serverload.NewDialed(addr), serverload.NewDialed(addr)
	r.sound = r.store(r.client(redis.Options{Dialer: r.sounds.Dial}), redisstore.Options{})
	return r
}

// over returns a store that waits for so many replicas.
func (r *pair) over(replicas int) *redisstore.Store {
	return r.store(r.client(redis.Options{Dialer: r.dialed.Dial}), redisstore.Options{Replicas: replicas})
}

// command sends a command to a server.
func command(s *redistest.Server, args ...any) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Do(ctx, args...).Err()
}

// promote makes the replica the primary. The old one does not know.
func (r *pair) promote() error {
	err := command(r.replica, "REPLICAOF", "NO", "ONE")
	r.primary, r.replica = r.replica, r.primary
	r.addr.Store(r.primary.Addr())
	r.sounds.HangUp() // the old primary would answer it as a replica
	return err
}

// follow waits until the replica has all data of the primary.
func (r *pair) follow() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.replica.Follows(ctx)
}

func (r *pair) port() string { return portOf(r.primary) }

// target attacks a store that waits for so many replicas.
func (r *pair) target(replicas int, d damage) target {
	s := r.subject(r.over(replicas), "")
	return target{&r.rig, []serverload.Subject{s}, func(serverload.Subject) []damage { return []damage{d} }}
}

// failover kills the primary. It comes back as the replica of its replica.
func (r *pair) failover() damage {
	return damage{"fail-over", func(*rand.Rand, []serverload.Call) error {
		defer r.mended(time.Now())
		err := errors.Join(r.primary.Kill(), r.promote())
		return errors.Join(err, r.replica.Start("replicaof 127.0.0.1 "+r.port()), r.follow())
	}}
}

// stop stops the primary until its replica has taken over. It goes on for some time with the
// clients that have not heard of that, and then becomes the replica.
func (r *pair) stop() damage {
	return damage{"stop and resume", func(pick *rand.Rand, _ []serverload.Call) error {
		defer r.mended(time.Now())
		err := r.primary.Pause()
		time.Sleep(time.Duration(pick.IntN(20)) * time.Millisecond)
		err = errors.Join(err, r.promote())
		if pick.IntN(2) == 0 {
			r.dialed.HangUp() // the clients have heard of it
		}
		err = errors.Join(err, r.replica.Resume())
		time.Sleep(time.Duration(pick.IntN(40)) * time.Millisecond)
		return errors.Join(err, command(r.replica, "REPLICAOF", "127.0.0.1", r.port()), r.follow())
	}}
}
