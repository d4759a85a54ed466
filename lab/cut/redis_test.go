package cut

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/redisstore"
)

// The settings of connections to Redis.
const (
	resp3 = "RESP3"
	resp2 = "RESP2"
	waits = "WAIT" // for a replica, behind each script
)

var protocols = []setting{{resp3, resp3, true}, {resp2, resp2, false}, {waits, waits, true}}

// newRedis returns a rig with a server of its own, so that each exchange has the same length every
// time.
func newRedis(t *testing.T, setting string, d serverload.Defect) *rig {
	t.Helper()
	server := redistest.NewServer(t, "repl-diskless-sync-delay 0")
	o := redisstore.Options{}
	if setting == waits {
		redistest.NewReplica(t, server)
		o.Replicas = 1
	}
	r := newRig(t, server.URL())
	u, err := url.Parse(r.proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	const name = "cut" // of the connections through the proxy
	dialed := serverload.NewDialed(func() string { return u.Host })
	client := func(o *redis.Options) *redis.Client {
		o.ReadTimeout, o.DialerRetries = statementTimeout, 1
		if setting == resp2 {
			o.Protocol = 2
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	// One connection.
	attacked := client(&redis.Options{Addr: u.Host, ClientName: name, PoolSize: 1, Dialer: dialed.Dial})
	direct := client(&redis.Options{Addr: server.Addr()})
	open := func(c *redis.Client, skew time.Duration) *redisstore.Store {
		o := o
		o.MaxSkew = skew
		s, err := redisstore.New(c, &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	sound := open(direct, 0)
	r.buckets = &serverload.Buckets{Store: &serverload.Spoiled{Store: open(attacked, 0), Defect: d}, Sound: sound}
	r.soundBuckets = &serverload.Buckets{Store: sound, Sound: sound}
	r.pruning, r.soundPruning = open(attacked, maxSkew), open(direct, maxSkew)
	r.clear = func(ctx context.Context) { direct.FlushDB(ctx) } // a prune passes over all keys
	r.hangUp = dialed.HangUp
	r.ended = func(ctx context.Context) error {
		return serverload.EndedRedis(ctx, direct, name, func() {
			dialed.HangUp()
			r.proxy.Drop()
		})
	}
	return r
}

// lottery cuts each connection after a random number of bytes of both directions together.
type lottery struct {
	mu   sync.Mutex
	r    *rand.Rand
	left map[*wire.Link]int // bytes until the cut
	cuts int                // so far
}

func (l *lottery) pass(link *wire.Link, _ wire.Direction, piece []byte) wire.Fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.left[link]; !known {
		l.left[link] = 300 + l.r.IntN(1<<(9+l.r.IntN(6))) // a connection begins with some 200 bytes
	}
	before := l.left[link]
	if l.left[link] -= len(piece); before < 0 || l.left[link] >= 0 {
		return wire.Pass(piece)
	}
	l.cuts++
	return wire.Fate{Pass: before, End: []wire.End{wire.Close, wire.Reset, wire.Half}[l.r.IntN(3)]}
}

func (l *lottery) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts
}

// TestRedisUnderLoad cuts connections that many calls share.
func TestRedisUnderLoad(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	row := attack.Begin(t, "cut", "redis, under load", seed)
	server := redistest.NewServer(t)
	l := &lottery{r: seed.Rand(), left: make(map[*wire.Link]int)}
	p, err := wire.New(server.URL(), l.pass)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func(addr string) *redisstore.Store {
		c := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1, ReadTimeout: statementTimeout})
		t.Cleanup(func() { _ = c.Close() })
		for {
			s, err := redisstore.New(c, nil)
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			t.Log(err) // a cut has come already
		}
	}
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := &serverload.Buckets{Store: open(u.Host), Sound: open(server.Addr())}
	meter := attack.Pick(
		attack.Budget{Count: math.MaxInt, Time: time.Second},
		attack.Budget{Count: 100, Time: time.Hour},
	).Start()
	runs := 0
	scope := func() string {
		runs++
		return fmt.Sprintf("%d/", runs)
	}
	o, err := serverload.Rounds(t.Context(), seed, meter, scope, func(part attack.Seed) (serverload.Round, serverload.Subject) {
		pick := part.Rand()
		return serverload.Round{
			Callers: 16, Retry: true, Attack: func([]serverload.Call) error { return nil },
			Calls: serverload.Script(pick, s.Kinds(), 400, []int{2, 50}[pick.IntN(2)]),
		}, s
	})
	if err != nil || o.Finding != nil {
		t.Errorf("%v, %v\nrepeat: %s\n%v", o.Finding, err, o.Seed.Repeat("cut", t.Name()), o.Round.Calls)
	}
	cuts := l.count()
	row.Often, row.Found = fmt.Sprintf("%d cuts", cuts), o.Found()
	t.Logf("%d cuts; of %d calls %d were not applied and %d are of unknown outcome; found: %s; seed %d", cuts,
		o.Told[serverload.Applied], o.Told[serverload.NotApplied], o.Told[serverload.Unknown], o.Found(), seed)
	if o.Told[serverload.Unknown] == 0 || attack.Night() && cuts < 1000 {
		t.Errorf("%d cuts; want some that hit calls, and 1000 in a night", cuts)
	}
}
