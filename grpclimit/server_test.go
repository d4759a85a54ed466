package grpclimit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// TestServer makes calls of a real server until its limit is reached.
func TestServer(t *testing.T) {
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			lim, _ := inMemory(t)
			c := served(t, newServer(t, lim, PerClient("api", three), nil))
			for range 3 {
				answered(t, call(t.Context(), c), codes.OK, -1)
			}
			answered(t, call(t.Context(), c), codes.ResourceExhausted, time.Minute)
			if st, err := lim.StateOf(t.Context(), "api:ip:127.0.0.1"); err != nil || st.Level != 3 {
				t.Errorf("the client's bucket: %+v, %v; want level 3", st, err)
			}
		})
	}
}

// TestServerOptions tries each option at a real server.
func TestServerOptions(t *testing.T) {
	var perUser PolicyFunc = func(ctx context.Context, _ string) ([]Policy, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return []Policy{{Name: "api", Key: strings.Join(md.Get("user"), ""), Limit: brim.Limit{Capacity: 1}}}, nil
	}
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(context.Background(), "user", user)
	}
	for name, call := range ways {
		t.Run("Key, "+name, func(t *testing.T) {
			lim, _ := inMemory(t)
			c := served(t, newServer(t, lim, perUser, nil))
			long := strings.Repeat("u", 600)
			for _, user := range []string{"", "alice", "bob", long} {
				answered(t, call(as(user), c), codes.OK, -1)
				answered(t, call(as(user), c), codes.ResourceExhausted, -1) // no wait helps
			}
			for _, key := range []string{"api:ip:127.0.0.1", "api:key:alice", "api:key:bob"} {
				if st, err := lim.StateOf(t.Context(), key); err != nil || st.Level != 1 {
					t.Errorf("bucket %s: %+v, %v", key, st, err)
				}
			}
		})
		t.Run("Skip, "+name, func(t *testing.T) {
			lim, _ := inMemory(t)
			skip := func(_ context.Context, method string) bool {
				return strings.HasPrefix(method, "/grpc.health.v1.Health/")
			}
			c := served(t, newServer(t, lim, PerClient("api", brim.Limit{Capacity: 1}), &ServerOptions{Skip: skip}))
			for range 3 {
				answered(t, call(t.Context(), c), codes.OK, -1)
			}
		})
		t.Run("Cost, "+name, func(t *testing.T) {
			lim, _ := inMemory(t)
			cost, told := 2.0, false
			c := served(t, newServer(t, lim, always(Policy{
				Name: "api", Limit: three,
				Cost: func(_ context.Context, _ string, message any) float64 {
					if (message != nil) != (name == "unary") {
						t.Errorf("message %v of a %s call", message, name)
					}
					return cost
				},
			}), &ServerOptions{OnUnavailable: FailOpen, OnError: func(context.Context, string, error) { told = true }}))
			answered(t, call(t.Context(), c), codes.OK, -1)
			answered(t, call(t.Context(), c), codes.ResourceExhausted, time.Minute)
			for _, cost = range []float64{4, 1 << 53} {
				answered(t, call(t.Context(), c), codes.ResourceExhausted, -1)
			}
			for _, cost = range []float64{1<<53 + 2, math.Inf(1)} { // a client can cause these by a large message
				answered(t, call(t.Context(), c), codes.InvalidArgument, -1)
			}
			if told {
				t.Error("OnError was told what no store and no application did")
			}
			for _, cost = range []float64{-1, math.NaN()} { // FailOpen must not let these pass
				answered(t, call(t.Context(), c), codes.Internal, -1)
			}
		})
		t.Run("a failing store, "+name, func(t *testing.T) {
			for onFailure, want := range map[Failure]codes.Code{
				FailClosed: codes.Unavailable, FailOpen: codes.ResourceExhausted, FailUnlimited: codes.OK,
			} {
				lim, s := inMemory(t)
				s.fails = true
				var reported error
				c := served(t, newServer(t, lim, PerClient("api", brim.Limit{Capacity: 3}), &ServerOptions{
					OnUnavailable: onFailure, OnError: func(_ context.Context, _ string, err error) { reported = err },
				}))
				for range 3 { // in memory, three calls fit
					if err := call(t.Context(), c); (err == nil) != (onFailure != FailClosed) {
						t.Errorf("failure %v: %v", onFailure, err)
					}
				}
				err := call(t.Context(), c)
				wait := time.Duration(-1)
				if onFailure == FailOpen {
					wait = time.Second // then the store may answer again
				}
				answered(t, err, want, wait)
				if errors.Is(reported, errBroken) != (onFailure != FailOpen) || err != nil && strings.Contains(err.Error(), "broken") {
					t.Errorf("the client gets %v, and OnError %v", err, reported)
				}
			}
			for _, onFailure := range []Failure{FailClosed, FailOpen, FailUnlimited} {
				lim, s := inMemory(t)
				s.fails, s.instead = true, store.ErrMisconfigured
				var log bytes.Buffer
				c := served(t, newServer(t, lim, PerClient("api", three), &ServerOptions{
					OnUnavailable: onFailure, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}))
				for range 2 {
					answered(t, call(t.Context(), c), codes.Internal, -1)
				}
				if n := strings.Count(log.String(), "until somebody mends this"); n != 1 {
					t.Errorf("logged %d times in a minute: %s", n, &log)
				}
			}
		})
	}
}

// textAddr is an address as a transport of somebody's own may write it.
type textAddr string

func (textAddr) Network() string  { return "own" }
func (a textAddr) String() string { return string(a) }

// TestServerWithoutNetwork calls the interceptors themselves, for cases that no real client shows.
func TestServerWithoutNetwork(t *testing.T) {
	call := func(ctx context.Context, s *Server) error {
		_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, nil })
		return err
	}
	from := func(addr net.Addr) context.Context {
		return peer.NewContext(context.Background(), &peer.Peer{Addr: addr})
	}
	t.Run("addresses", func(t *testing.T) {
		for want, ctx := range map[string]context.Context{
			"api:ip:192.0.2.7":         from(&net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 7}),
			"api:ip:192.0.2.8":         from(textAddr("[::ffff:192.0.2.8]:7")),
			"api:ip:2001:db8:1:2::/64": from(&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3::4"), Port: 7}),
			"api:ip:unknown":           from(&net.UnixAddr{Name: "@", Net: "unix"}),
		} {
			lim, _ := inMemory(t)
			if err := call(ctx, newServer(t, lim, PerClient("api", three), nil)); err != nil {
				t.Error(err)
			}
			if st, err := lim.StateOf(t.Context(), want); err != nil || st.Level != 1 {
				t.Errorf("bucket %s: %+v, %v; want level 1", want, st, err)
			}
		}
		lim, _ := inMemory(t)
		wide := from(&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2ff::4"), Port: 7})
		if err := call(wide, newServer(t, lim, PerClient("api", three), &ServerOptions{IPv6Prefix: 48})); err != nil {
			t.Error(err)
		}
		if st, err := lim.StateOf(t.Context(), "api:ip:2001:db8:1::/48"); err != nil || st.Level != 1 {
			t.Errorf("48 bits: %+v, %v", st, err)
		}
		if err := call(context.Background(), newServer(t, lim, PerClient("api", three), &ServerOptions{Shared: true})); err != nil {
			t.Error(err)
		}
		if st, err := lim.StateOf(t.Context(), "api:ip:unknown"); err != nil || st.Level != 1 {
			t.Errorf("a call without a peer: %+v, %v", st, err)
		}
	})
	t.Run("jitter", func(t *testing.T) {
		lim, _ := inMemory(t)
		s := newServer(t, lim, PerClient("api", brim.Limit{Capacity: 1, LeakRate: 1}), &ServerOptions{Jitter: time.Hour})
		answered(t, call(t.Context(), s), codes.OK, -1)
		waits := map[time.Duration]bool{}
		for range 10 {
			err := call(t.Context(), s)
			wait, ok := retryAfter(err)
			if over := (*brim.OverLimitError)(nil); !ok || wait < time.Second || wait > time.Hour+time.Second || !errors.As(err, &over) {
				t.Errorf("%v: a RetryInfo of %v, %v", err, wait, ok)
			}
			waits[wait] = true
		}
		if len(waits) < 5 {
			t.Errorf("ten clients get only %d waits", len(waits))
		}
	})
	t.Run("an ended call", func(t *testing.T) {
		lim, _ := inMemory(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := call(ctx, newServer(t, lim, PerClient("api", three), &ServerOptions{OnUnavailable: FailOpen}))
		answered(t, err, codes.Canceled, -1)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want the context's error in it", err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		lim, _ := inMemory(t)
		s := newServer(t, lim, PerClient("api", three), &ServerOptions{Timeout: time.Nanosecond})
		answered(t, call(t.Context(), s), codes.Unavailable, -1)
	})
}

// TestSeveralPolicies decides calls under two policies at once.
func TestSeveralPolicies(t *testing.T) {
	lim, _ := inMemory(t)
	cost := 1.0
	var perMethod PolicyFunc = func(_ context.Context, method string) ([]Policy, error) {
		return []Policy{{
			Name: "method", Key: method, Limit: brim.Limit{Capacity: 10, LeakRate: 0.1},
			Cost: func(context.Context, string, any) float64 { return cost },
		}}, nil
	}
	s := newServer(t, lim, All(PerClient("client", three), perMethod), nil)
	for _, step := range []struct {
		cost float64
		why  string
		want codes.Code
		wait time.Duration
	}{
		{6, "both have room", codes.OK, -1},
		{5, "the method refuses, and the client's bucket does not count the call", codes.ResourceExhausted, 10 * time.Second},
		{2, "both have room", codes.OK, -1},
		{2, "both have room", codes.OK, -1},
		{1, "both refuse, and the longer wait counts", codes.ResourceExhausted, time.Minute},
		{11, "no wait helps", codes.ResourceExhausted, -1},
		{1e300, "no limit admits so much", codes.InvalidArgument, -1},
		{math.NaN(), "the cost is the application's error", codes.Internal, -1},
	} {
		cost = step.cost
		_, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, nil })
		t.Log(step.why)
		answered(t, err, step.want, step.wait)
	}
}

// nothing is a handler that does nothing.
func nothing() error { return nil }

// TestRefuseWithoutError: a Refuse that returns no error does not answer OK.
func TestRefuseWithoutError(t *testing.T) {
	lim, _ := inMemory(t)
	c := served(t, newServer(t, lim, always(Policy{Name: "p", Limit: brim.Nobody}), &ServerOptions{
		Refuse: func(context.Context, string, Policy, brim.State) error { return nil },
	}))
	for way, call := range ways {
		t.Run(way, func(t *testing.T) { answered(t, call(t.Context(), c), codes.ResourceExhausted, -1) })
	}
}

// TestCountIf counts logins that fail, beside a policy that counts all calls.
func TestCountIf(t *testing.T) {
	lim, _ := inMemory(t)
	failures := Policy{
		Name: "failures", Key: "k", Limit: brim.Limit{Capacity: 2},
		CountIf: func(code codes.Code) bool { return code == codes.Unauthenticated || code == codes.Unknown },
	}
	all := Policy{Name: "all", Key: "k", Limit: brim.Limit{Capacity: 100}}
	var told error
	s := newServer(t, lim, PolicyFunc(func(context.Context, string) ([]Policy, error) { return []Policy{all, failures}, nil }), &ServerOptions{
		Refuse: func(_ context.Context, method string, p Policy, st brim.State) error {
			return status.Errorf(codes.Aborted, "%s of %s: %v", p.Name, method, st.RetryAfter == brim.Never)
		},
		OnError: func(_ context.Context, _ string, err error) { told = err },
	})
	login := func(err error) error {
		ctx, hangUp := context.WithCancel(t.Context())
		return s.around(ctx, "/login", nil, func() error {
			hangUp() // it counts all the same
			if err == nil {
				return nil
			}
			if status.Code(err) == codes.Unknown {
				panic(err)
			}
			return err
		})
	}
	wrong := status.Error(codes.Unauthenticated, "wrong password")
	for i, step := range []struct {
		answer error
		want   codes.Code
		failed float64
	}{{nil, codes.OK, 0}, {wrong, codes.Unauthenticated, 1}, {errors.New("a panic"), codes.OK, 2}, {nil, codes.Aborted, 2}} {
		var err error
		func() {
			defer func() { _ = recover() }()
			err = login(step.answer)
		}()
		if status.Code(err) != step.want {
			t.Errorf("%d: %v; want %v", i, err, step.want)
		}
		if st, err := lim.StateOf(t.Context(), "failures:key:k"); err != nil || st.Level != step.failed {
			t.Errorf("%d: %v, %v; want %v failures", i, st, err, step.failed)
		}
	}
	if err := login(nil); !strings.Contains(err.Error(), "failures of /login: true") {
		t.Errorf("%v; want the policy and the method", err)
	}
	if told != nil {
		t.Errorf("told %v", told)
	}
}

// TestStrict: of 100 failed logins at once, the limit admits exactly its capacity. A call that does
// not count leaves nothing in the bucket.
func TestStrict(t *testing.T) {
	lim, _ := inMemory(t)
	s := newServer(t, lim, always(Policy{
		Name: "failures", Key: "k", Limit: brim.Limit{Capacity: 7}, Strict: true,
		CountIf: func(code codes.Code) bool { return code == codes.Unauthenticated },
	}), nil)
	for i := range 9 {
		func() {
			defer func() { _ = recover() }()
			_ = s.around(t.Context(), "/login", nil, func() error {
				if i%3 == 0 {
					panic("handler")
				}
				return nil
			})
		}()
	}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			_ = s.around(t.Context(), "/login", nil, func() error {
				admitted.Add(1)
				return status.Error(codes.Unauthenticated, "wrong password")
			})
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 7 {
		t.Errorf("%d failed logins were admitted, want 7", n)
	}
}

// TestInvalidPolicies makes calls that the application has made no sense of. FailOpen does not let
// them pass.
func TestInvalidPolicies(t *testing.T) {
	errOwn := errors.New("no such plan")
	var failing PolicyFunc = func(context.Context, string) ([]Policy, error) { return nil, errOwn }
	for says, p := range map[string]Policies{
		"has no name":      PerClient("", three),
		"limit is not set": PerClient("api", brim.Limit{}),
		"no such plan":     All(PerClient("api", three), failing),
	} {
		var reported error
		lim, _ := inMemory(t)
		s := newServer(t, lim, p, &ServerOptions{
			OnUnavailable: FailOpen, OnError: func(_ context.Context, _ string, err error) { reported = err },
		})
		answered(t, s.around(t.Context(), "/a/b", nil, nothing), codes.Internal, -1)
		if reported == nil || !strings.Contains(reported.Error(), says) {
			t.Errorf("%v; want an error that says %q", reported, says)
		}
	}
	lim, _ := inMemory(t)
	newServer(t, lim, PerClient("api", three), nil)
	if _, err := NewServer(lim, PerClient("api", three), nil); err == nil || !strings.Contains(err.Error(), `"api"`) {
		t.Errorf("a name that another middleware has: %v", err)
	}
	none := newServer(t, lim, PolicyFunc(func(context.Context, string) ([]Policy, error) { return nil, nil }), nil)
	if err := none.around(t.Context(), "/a/b", nil, nothing); err != nil {
		t.Errorf("no policies: %v", err)
	}
}

// overdue is a context whose deadline has come, and whose timer has not fired yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now(), true }

// TestLeavers fails the store for callers who have left. A client chooses its deadline, so an end
// of the call must not pass it by FailOpen.
func TestLeavers(t *testing.T) {
	lim, s := inMemory(t)
	s.fails = true
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ctx := range map[codes.Code]context.Context{
		codes.Canceled: gone, codes.DeadlineExceeded: overdue{t.Context()}, codes.OK: t.Context(),
	} {
		for _, onFailure := range []Failure{FailOpen, FailUnlimited} {
			reports := 0
			open := newServer(t, lim, PerClient("api", three), &ServerOptions{
				OnUnavailable: onFailure, Shared: true, OnError: func(context.Context, string, error) { reports++ },
			})
			answered(t, open.around(ctx, "/a/b", nil, nothing), want, -1)
			if failure := want == codes.OK && onFailure == FailUnlimited; failure != (reports == 1) {
				t.Errorf("%v: %d failures of the store reported", want, reports)
			}
		}
	}
}

func TestNewServer(t *testing.T) {
	lim, _ := inMemory(t)
	p := PerClient("api", three)
	for says, create := range map[string]func() (*Server, error){
		"Limiter is nil":     func() (*Server, error) { return NewServer(nil, p, nil) },
		"no policies":        func() (*Server, error) { return NewServer(lim, nil, nil) },
		"OnUnavailable is 3": func() (*Server, error) { return NewServer(lim, p, &ServerOptions{OnUnavailable: 3}) },
		"Jitter is -1":       func() (*Server, error) { return NewServer(lim, p, &ServerOptions{Jitter: -1}) },
		"Timeout is -1":      func() (*Server, error) { return NewServer(lim, p, &ServerOptions{Timeout: -1}) },
		"IPv6Prefix is 129":  func() (*Server, error) { return NewServer(lim, p, &ServerOptions{IPv6Prefix: 129}) },
	} {
		if s, err := create(); s != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want an error that says %q", s, err, says)
		}
	}
}
