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
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// hole is a network in which bytes can get lost. When it is shut, connections accept all bytes and
// give no answer, and so do new ones. When it is open again, those stay dead, and new ones work.
type hole struct {
	shut     atomic.Bool
	shuts    atomic.Int64
	hangs    bool         // a new connection is not even accepted
	listener net.Listener // accepts and never answers
}

// cut shuts the network.
func (h *hole) cut() {
	h.shuts.Add(1)
	h.shut.Store(true)
}

func newHole(t *testing.T) *hole {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return &hole{listener: l}
}

func (h *hole) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	shuts := h.shuts.Load()
	if h.shut.Load() {
		if addr = h.listener.Addr().String(); h.hangs {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		}
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &holeConn{c, h, shuts}, nil
}

type holeConn struct {
	net.Conn
	hole  *hole
	shuts int64 // of the hole, when the connection was made
}

func (c *holeConn) Write(p []byte) (int, error) {
	if c.hole.shut.Load() || c.hole.shuts.Load() != c.shuts {
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
			}, func() { h.cut() }}
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
			server, w := single(t, redistest.Enabled(t, "debug-command")...)
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
				probe := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 500 * time.Millisecond, MaxRetries: -1})
				defer probe.Close()
				for probe.Ping(t.Context()).Err() == nil { // a server that is merely busy answers in that time
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
			}, func() { h.cut() }}
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
				s, err := newStore(warm, o)
				must(t, err)
				must(t, lives(func() error { return fill(t.Context(), s) })) // this opens a connection
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
		h.cut()
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

// TestOutage drops a network and mends it. However many connections were idle, and are dead, calls
// succeed again within twice CallTimeout.
func TestOutage(t *testing.T) {
	const timeout = 600 * time.Millisecond
	for _, c := range []struct {
		name     string
		cluster  bool
		contexts bool // ContextTimeoutEnabled
		hangs    bool // no connection is accepted while the network is down
		calls    bool // are made while the network is down
		replicas int  // with these, scripts are in pipelines, which have connections of their own
	}{
		{"quiet", false, true, false, false, 0},
		{"quiet, by its own timeouts", false, false, false, false, 0},
		{"busy", false, true, false, true, 0},
		{"busy, no connections", false, true, true, true, 0},
		{"cluster, quiet", true, true, false, false, 0},
		{"cluster, busy", true, true, false, true, 0},
		{"cluster with replicas, quiet", true, true, false, false, 1},
	} {
		for _, idle := range []int{1, 100, 10}[:seed.Attempts(2, 3)] {
			t.Run(fmt.Sprintf("%s, %d idle", c.name, idle), func(t *testing.T) {
				h := newHole(t)
				h.hangs = c.hangs
				var client redis.UniversalClient
				var server *redis.Client
				if c.cluster {
					all := closing(t, redis.NewClusterClient(&redis.ClusterOptions{
						Addrs: redistest.ClusterClient(t).Options().Addrs, Dialer: h.dial, ContextTimeoutEnabled: c.contexts,
						PoolSize: 2 * idle, PipelinePoolSize: 2 * idle, DialTimeout: timeout, ReadTimeout: timeout,
					}))
					var err error
					server, err = all.MasterForKey(t.Context(), "outage:b")
					must(t, err)
					client = all
				} else {
					server = redistest.Client(t, func(o *redis.Options) {
						o.Dialer, o.ContextTimeoutEnabled, o.PoolSize, o.DialTimeout = h.dial, c.contexts, 2*idle, timeout
						if !c.contexts {
							o.ReadTimeout, o.WriteTimeout = timeout, timeout
						}
					})
					client = server
				}
				s := open(t, client, &Options{CallTimeout: timeout, Prefix: "outage:", Replicas: c.replicas})
				must(t, lives(func() error { return fill(t.Context(), s) }))
				idles := func() int {
					if c.replicas > 0 {
						return int(server.PoolStats().PipelineStats.IdleConns)
					}
					return int(server.PoolStats().IdleConns)
				}
				for idles() < idle { // callers that wait at once have connections of their own
					var wg sync.WaitGroup
					for range idle {
						wg.Go(func() {
							if c.replicas == 0 {
								_ = server.Do(t.Context(), "wait", 9, 100).Err() // there are fewer
								return
							}
							pipe := server.Pipeline()
							pipe.Do(t.Context(), "wait", 9, 100)
							_, _ = pipe.Exec(t.Context())
						})
					}
					wg.Wait()
				}
				h.cut()
				for until := time.Now().Add(4 * timeout); c.calls && time.Now().Before(until); {
					if err := fill(t.Context(), s); err == nil {
						t.Fatal("a call crossed the network that is down")
					}
				}
				h.shut.Store(false)
				back, failed := time.Now(), 0
				for fill(t.Context(), s) != nil {
					if failed++; time.Since(back) > time.Minute {
						t.Fatalf("%d calls failed in a minute", failed)
					}
				}
				took := time.Since(back)
				t.Logf("%v after the network was back, and %d calls that failed", took.Round(time.Millisecond), failed)
				if took > 2*timeout {
					t.Errorf("the first success was %v after the network was back, want at most %v", took, 2*timeout)
				}
				must(t, s.Delete(t.Context(), "b"))
			})
		}
	}
}
