package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// three admits three calls at once, and then one per minute.
var three = brim.Limit{Capacity: 3, LeakRate: 1.0 / 60}

var errBroken = fmt.Errorf("%w: broken", store.ErrUnavailable)

// failing is a store that fails as long as fails is set.
type failing struct {
	store.Store
	fails   bool
	with    error // beside errBroken
	instead error // of both
}

func (f *failing) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if f.fails && f.instead != nil {
		return store.State{}, f.instead
	}
	if f.fails {
		return store.State{}, errors.Join(errBroken, f.with)
	}
	return f.Store.Fill(ctx, op)
}

// inMemory returns a Limiter over a store whose clock stands, and the store.
func inMemory(t *testing.T) (*brim.Limiter, *failing) {
	t.Helper()
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	s := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	f := &failing{Store: s}
	return brim.New(f, nil), f
}

// serve starts a server at a loopback address, and returns a client of its health service.
func serve(t *testing.T, s []grpc.ServerOption, c []grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(s...)
	healthpb.RegisterHealthServer(srv, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), append(c, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

// served returns a client of a server with the limit.
func served(t *testing.T, s *Server) healthpb.HealthClient {
	t.Helper()
	return serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(s.Unary), grpc.StreamInterceptor(s.Stream)}, nil)
}

func newServer(t *testing.T, lim *brim.Limiter, p Policies, o *ServerOptions) *Server {
	t.Helper()
	s, err := NewServer(lim, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// always returns the same policy for each call.
func always(p Policy) Policies {
	return PolicyFunc(func(context.Context, string) ([]Policy, error) { return []Policy{p}, nil })
}

// check makes a unary call.
func check(ctx context.Context, c healthpb.HealthClient) error {
	_, err := c.Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// watch makes a call with a stream, and reads one message.
func watch(ctx context.Context, c healthpb.HealthClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

var ways = map[string]func(context.Context, healthpb.HealthClient) error{"unary": check, "stream": watch}

// answered checks the status of a call, and the wait of its RetryInfo, -1 for none.
func answered(t *testing.T, err error, want codes.Code, wait time.Duration) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%v: %v; want %v", err, got, want)
	}
	if got, ok := retryAfter(err); ok != (wait >= 0) || ok && got != wait {
		t.Errorf("%v: a RetryInfo of %v, %v; want %v", err, got, ok, wait)
	}
}
