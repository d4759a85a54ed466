package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// hole is a network in which bytes can get lost. When it is shut, connections accept all bytes and
// give no answer, and so do new ones.
type hole struct {
	shut     atomic.Bool
	listener net.Listener // accepts and never answers
}

func newHole(t *testing.T) *hole {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return &hole{listener: l}
}

func (h *hole) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.shut.Load() {
		addr = h.listener.Addr().String()
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &holeConn{c, h}, nil
}

type holeConn struct {
	net.Conn
	hole *hole
}

func (c *holeConn) Write(p []byte) (int, error) {
	if c.hole.shut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// publicCalls are all calls that ask a server.
var publicCalls = []struct {
	name   string
	writes bool // an answer that does not come leaves the outcome unknown
	call   func(context.Context, redis.UniversalClient, *Store, store.Bucket) error
}{
	{"New", false, func(_ context.Context, c redis.UniversalClient, _ *Store, _ store.Bucket) error {
		_, err := New(c, &Options{CallTimeout: boundTimeout})
		return err
	}},
	{"Check", false, func(ctx context.Context, c redis.UniversalClient, _ *Store, _ store.Bucket) error {
		_, err := Check(ctx, c, &Options{CallTimeout: boundTimeout})
		return err
	}},
	{"Fill", true, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
		return err
	}},
	{"Fill: ask", false, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1, Mode: store.Ask})
		return err
	}},
	{"Fill: block", true, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		_, err := s.Fill(ctx, store.Op{Bucket: b, BlockFor: time.Hour, Mode: store.Block})
		return err
	}},
	{"Apply", true, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		// Each transaction takes a script of its own. Those behind the first are not sent.
		txns := make([]store.Txn, 10)
		for i := range txns {
			txns[i] = store.Txn{{Bucket: b, Amount: 1}, {Bucket: b, Amount: 1}}
		}
		res, err := s.Apply(ctx, txns...)
		if err != nil {
			return err
		}
		for _, r := range res[1:] {
			if !errors.Is(r.Err, store.ErrUnavailable) {
				return fmt.Errorf("a transaction behind: %w", r.Err)
			}
		}
		return res[0].Err
	}},
	{"Read", false, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		_, err := s.Read(ctx, b, b, b, b, b)
		return err
	}},
	{"Delete", true, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		return s.Delete(ctx, b.Key, b.Key, b.Key, b.Key, b.Key)
	}},
	{"Visit", false, func(ctx context.Context, _ redis.UniversalClient, s *Store, _ store.Bucket) error {
		return s.Visit(ctx, "", func(store.Entry) bool { return true })
	}},
	{"Close", true, func(ctx context.Context, _ redis.UniversalClient, s *Store, b store.Bucket) error {
		failed := make(chan error, 1)
		go func() { failed <- fill(context.WithoutCancel(ctx), s) }()
		if s.single == nil {
			return <-failed
		}
		for s.single.client.PoolStats().IdleConns > 0 { // until the fill is in flight
			runtime.Gosched()
		}
		return errors.Join(s.Close(), <-failed)
	}},
}

const boundTimeout = time.Second

// TestBound makes each public call behind a server that accepts and never answers. The call ends
// within twice CallTimeout. A write that was sent has an unknown outcome; all else was not applied.
func TestBound(t *testing.T) {
	type world struct {
		client func() redis.UniversalClient
		die    func()
	}
	// None of the client's own timeouts helps.
	single := func(t *testing.T, conf ...string) (*redistest.Server, world) {
		server := redistest.NewServer(t, conf...)
		return server, world{client: func() redis.UniversalClient {
			return closing(t, redis.NewClient(&redis.Options{
				Addr: server.Addr(), ContextTimeoutEnabled: true, ReadTimeout: -1, DialTimeout: time.Minute, PoolTimeout: time.Minute,
			}))
		}}
	}
	for _, c := range []struct {
		name, why string
		world     func(*testing.T) world
	}{
		{"swallows", "a balancer keeps connections to a server that is gone", func(t *testing.T) world {
			server, h := redistest.NewServer(t), newHole(t)
			return world{func() redis.UniversalClient {
				return closing(t, redis.NewClient(&redis.Options{
					Addr: server.Addr(), Dialer: h.dial, ReadTimeout: boundTimeout,
				}))
			}, func() { h.shut.Store(true) }}
		}},
		{"stopped", "its kernel still accepts connections", func(t *testing.T) world {
			server, w := single(t)
			w.die = func() {
				must(t, server.Pause())
				t.Cleanup(func() { must(t, server.Resume()) })
			}
			return w
		}},
		{"paused", "CLIENT PAUSE lets the greeting of a new connection wait, too", func(t *testing.T) world {
			server, w := single(t)
			w.die = func() { must(t, server.Client(t).Do(t.Context(), "CLIENT", "PAUSE", "600000", "ALL").Err()) }
			return w
		}},
		{"sleeps", "DEBUG SLEEP stands for a command that takes long", func(t *testing.T) world {
			server, w := single(t, "enable-debug-command yes")
			sleeper := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, MaxRetries: -1})
			w.die = func() {
				asleep := make(chan struct{})
				go func() {
					defer close(asleep)
					_ = sleeper.Do(context.WithoutCancel(t.Context()), "DEBUG", "SLEEP", "600").Err() // the server is killed
				}()
				t.Cleanup(func() {
					must(t, server.Kill())
					<-asleep
					sleeper.Close()
				})
				probe := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 10 * time.Millisecond, MaxRetries: -1})
				defer probe.Close()
				for probe.Ping(t.Context()).Err() == nil {
				}
			}
			return w
		}},
		{"cluster", "the client asks its servers for the map of slots one after the other", func(t *testing.T) world {
			addrs, h := redistest.ClusterClient(t).Options().Addrs, newHole(t)
			return world{func() redis.UniversalClient {
				return closing(t, redis.NewClusterClient(&redis.ClusterOptions{
					Addrs: addrs, Dialer: h.dial, ReadTimeout: boundTimeout,
				}))
			}, func() { h.shut.Store(true) }}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			var run []func()
			var wg sync.WaitGroup
			bounded := func(name string, wants error, call func() error) {
				run = append(run, func() {
					before := time.Now()
					err := call()
					took := time.Since(before)
					t.Logf("%s: %v: %v", name, took.Round(time.Millisecond), err)
					if took > 2*boundTimeout {
						t.Errorf("%s took %v, want at most %v\nwhy: %s", name, took, 2*boundTimeout, c.why)
					}
					if !errors.Is(err, wants) {
						t.Errorf("%s: %v; want %v", name, err, wants)
					}
				})
			}
			b := store.Limit{Capacity: 1 << 50}.For("b")
			for _, one := range publicCalls {
				o := &Options{CallTimeout: boundTimeout, BatchSize: 1, Prefix: "bound:"}
				warm := w.client()
				s, err := New(warm, o)
				must(t, err)
				must(t, fill(t.Context(), s)) // this opens a connection
				wants := store.ErrUnavailable
				if one.writes {
					wants = store.ErrUnknownOutcome
				}
				bounded(one.name, wants, func() error { return one.call(t.Context(), warm, s, b) })
				if cold := w.client(); s.single != nil && one.name != "Close" {
					s, err := newStore(cold, o)
					must(t, err)
					bounded(one.name+" without a connection", store.ErrUnavailable, func() error {
						return one.call(t.Context(), cold, s, b)
					})
				}
			}
			w.die()
			for _, f := range run {
				wg.Go(f)
			}
			wg.Wait()
		})
	}
}

// TestBoundOfMany has more callers than two flushes take wait behind a dead server.
func TestBoundOfMany(t *testing.T) {
	const timeout = 2 * time.Second
	h := newHole(t)
	for name, client := range map[string]redis.UniversalClient{
		"single": redistest.Client(t, func(o *redis.Options) { o.Dialer, o.ContextTimeoutEnabled = h.dial, true }),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: redistest.ClusterClient(t).Options().Addrs, Dialer: h.dial, ContextTimeoutEnabled: true,
		}),
	} {
		h.shut.Store(false)
		s := open(t, client, &Options{CallTimeout: timeout, Prefix: "bound:"})
		h.shut.Store(true)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var longest time.Duration
		for i := range 2*maxRequests + 1000 {
			key := store.Limit{Capacity: 1}.For(fmt.Sprint("b", i))
			wg.Go(func() {
				before := time.Now()
				_, err := s.Fill(t.Context(), store.Op{Bucket: key, Amount: 1})
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(before))
				if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		if t.Logf("%s: at most %v", name, longest); longest > 2*timeout {
			t.Errorf("%s: one call of many took %v, want at most %v", name, longest, 2*timeout)
		}
		must(t, client.Close())
	}
}
