package grpclimit

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/brimgo/brim"
)

// TestServer makes calls of a real server until its limit is reached.
func TestServer(t *testing.T) {
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			lim, _ := inMemory(t)
			c := served(t, newServer(t, lim, three, FailClosed, nil))
			for range 3 {
				answered(t, call(t.Context(), c), codes.OK, -1)
			}
			answered(t, call(t.Context(), c), codes.ResourceExhausted, time.Minute)
			if st, err := lim.StateOf(t.Context(), "ip:127.0.0.1"); err != nil || st.Level != 3 {
				t.Errorf("the client's bucket: %+v, %v; want level 3", st, err)
			}
		})
	}
}

// TestServerOptions tries each option at a real server.
func TestServerOptions(t *testing.T) {
	secret := func(ctx context.Context, _ string) string {
		md, _ := metadata.FromIncomingContext(ctx)
		return strings.Join(md.Get("user"), "")
	}
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(context.Background(), "user", user)
	}
	for name, call := range ways {
		t.Run("Key, "+name, func(t *testing.T) {
			lim, _ := inMemory(t)
			c := served(t, newServer(t, lim, brim.Limit{Capacity: 1}, FailClosed, &ServerOptions{Key: secret}))
			long := strings.Repeat("u", 600)
			for _, user := range []string{"", "alice", "bob", long} {
				answered(t, call(as(user), c), codes.OK, -1)
				answered(t, call(as(user), c), codes.ResourceExhausted, -1) // no wait helps
			}
			for _, key := range []string{"ip:127.0.0.1", "alice", "bob"} {
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
			c := served(t, newServer(t, lim, brim.Limit{Capacity: 1}, FailClosed, &ServerOptions{Skip: skip}))
			for range 3 {
				answered(t, call(t.Context(), c), codes.OK, -1)
			}
		})
		t.Run("Cost, "+name, func(t *testing.T) {
			lim, _ := inMemory(t)
			cost := 2.0
			c := served(t, newServer(t, lim, three, FailOpen, &ServerOptions{
				Cost: func(_ context.Context, _ string, message any) float64 {
					if (message != nil) != (name == "unary") {
						t.Errorf("message %v of a %s call", message, name)
					}
					return cost
				},
			}))
			answered(t, call(t.Context(), c), codes.OK, -1)
			answered(t, call(t.Context(), c), codes.ResourceExhausted, time.Minute)
			cost = 4
			answered(t, call(t.Context(), c), codes.ResourceExhausted, -1)
			for _, cost = range []float64{-1, math.NaN()} { // FailOpen must not let these pass
				answered(t, call(t.Context(), c), codes.Internal, -1)
			}
		})
		t.Run("a failing store, "+name, func(t *testing.T) {
			for onFailure, want := range map[Failure]codes.Code{FailClosed: codes.Unavailable, FailOpen: codes.OK} {
				lim, s := inMemory(t)
				s.fails = true
				var reported error
				c := served(t, newServer(t, lim, three, onFailure, &ServerOptions{
					OnError: func(_ context.Context, _ string, err error) { reported = err },
				}))
				err := call(t.Context(), c)
				answered(t, err, want, -1)
				if !errors.Is(reported, errBroken) || err != nil && strings.Contains(err.Error(), "broken") {
					t.Errorf("the client gets %v, and OnError %v", err, reported)
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
			"ip:192.0.2.7":         from(&net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 7}),
			"ip:192.0.2.8":         from(textAddr("[::ffff:192.0.2.8]:7")),
			"ip:2001:db8:1:2::/64": from(&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3::4"), Port: 7}),
			"ip:unknown":           from(&net.UnixAddr{Name: "@", Net: "unix"}),
		} {
			lim, _ := inMemory(t)
			if err := call(ctx, newServer(t, lim, three, FailClosed, nil)); err != nil {
				t.Error(err)
			}
			if st, err := lim.StateOf(t.Context(), want); err != nil || st.Level != 1 {
				t.Errorf("bucket %s: %+v, %v; want level 1", want, st, err)
			}
		}
		lim, _ := inMemory(t)
		if err := call(context.Background(), newServer(t, lim, three, FailClosed, nil)); err != nil {
			t.Error(err)
		}
		if st, err := lim.StateOf(t.Context(), "ip:unknown"); err != nil || st.Level != 1 {
			t.Errorf("a call without a peer: %+v, %v", st, err)
		}
	})
	t.Run("jitter", func(t *testing.T) {
		lim, _ := inMemory(t)
		s := newServer(t, lim, brim.Limit{Capacity: 1, LeakRate: 1}, FailClosed, &ServerOptions{Jitter: time.Hour})
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
		err := call(ctx, newServer(t, lim, three, FailOpen, nil))
		answered(t, err, codes.Canceled, -1)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want the context's error in it", err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		lim, _ := inMemory(t)
		s := newServer(t, lim, three, FailClosed, &ServerOptions{Timeout: time.Nanosecond})
		answered(t, call(t.Context(), s), codes.Unavailable, -1)
	})
}

func TestNewServer(t *testing.T) {
	lim, _ := inMemory(t)
	for says, create := range map[string]func() (*Server, error){
		"Limiter is nil": func() (*Server, error) { return NewServer(nil, three, FailClosed, nil) },
		"limit":          func() (*Server, error) { return NewServer(lim, brim.Limit{}, FailClosed, nil) },
		"Failure is 0":   func() (*Server, error) { return NewServer(lim, three, 0, nil) },
		"Jitter is -1":   func() (*Server, error) { return NewServer(lim, three, FailOpen, &ServerOptions{Jitter: -1}) },
		"Timeout is -1":  func() (*Server, error) { return NewServer(lim, three, FailOpen, &ServerOptions{Timeout: -1}) },
	} {
		if s, err := create(); s != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want an error that says %q", s, err, says)
		}
	}
}
