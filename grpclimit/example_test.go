package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/grpclimit"
	"github.com/brimgo/brim/memory"
)

// newServer returns a gRPC server that admits 2 calls of a client at once, and then one every ten
// seconds.
func newServer(lim *brim.Limiter) (*grpc.Server, error) {
	limit, err := grpclimit.NewServer(lim, grpclimit.PerClient("api", brim.Over(2, 20*time.Second)), nil)
	if err != nil {
		return nil, err
	}
	return grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream)), nil
}

// A server limits each client. The status of a refused call tells when to come back.
func Example() {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	// The clock stands still, so that the output is always the same.
	db := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	srv, err := newServer(brim.New(db, nil))
	if err != nil {
		log.Fatal(err)
	}
	healthpb.RegisterHealthServer(srv, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = srv.Serve(listener) }()
	defer srv.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("come back in", info.GetRetryDelay().AsDuration())
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// come back in 10s
}

// newClient returns a connection whose calls take turns: all processes that share the Limiter's
// store make at most 50 calls a second together.
func newClient(lim *brim.Limiter, target string) (*grpc.ClientConn, error) {
	turns, err := brim.NewShaper(lim, nil)
	if err != nil {
		return nil, err
	}
	calls, err := grpclimit.NewClient(turns, brim.Smooth(50, time.Second).For("api.example"), nil)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(calls.Unary), grpc.WithStreamInterceptor(calls.Stream))
}

// The processes of a client keep to the limit of an API together.
func ExampleClient() {
	db := memory.New(nil)
	conn, err := newClient(brim.New(db, nil), "127.0.0.1:50051")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: 127.0.0.1:50051
}

// failedLogins counts logins that fail. A burst of them does not pass the limit either.
func failedLogins(lim *brim.Limiter, userOf func(context.Context) string) (*grpclimit.Server, error) {
	return grpclimit.NewServer(lim, grpclimit.PolicyFunc(func(ctx context.Context, _ string) ([]grpclimit.Policy, error) {
		return []grpclimit.Policy{{
			Name: "logins", Key: userOf(ctx), Limit: brim.Over(2, time.Hour),
			CountIf: func(code codes.Code) bool { return code == codes.Unauthenticated }, Strict: true,
		}}, nil
	}), nil)
}

func ExamplePolicies() {
	user := ""
	limit, err := failedLogins(brim.New(memory.New(nil), nil), func(context.Context) string { return user })
	if err != nil {
		log.Fatal(err)
	}
	wrong := status.Error(codes.Unauthenticated, "wrong password")
	for _, login := range []struct {
		user   string
		answer error
	}{{"alice", nil}, {"alice", nil}, {"alice", nil}, {"bob", wrong}, {"bob", wrong}, {"bob", wrong}} {
		user = login.user
		_, err := limit.Unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/login"},
			func(context.Context, any) (any, error) { return nil, login.answer })
		fmt.Println(user, status.Code(err))
	}
	// Output:
	// alice OK
	// alice OK
	// alice OK
	// bob Unauthenticated
	// bob Unauthenticated
	// bob ResourceExhausted
}

// inFlight lets so many calls of each method run at once, in all servers that share the store. The
// slots of a server that was killed are free after 30 seconds.
func inFlight(lim *brim.Limiter, most int) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		slot, err := lim.Acquire(ctx, "calls:"+info.FullMethod, most, 30*time.Second)
		if over, ok := errors.AsType[*brim.OverLimitError](err); ok {
			return nil, grpclimit.Refusal(over.State)
		} else if err != nil {
			return nil, status.Error(codes.Unavailable, "try again later")
		}
		ctx, release := slot.Keep(ctx) // ends if the slot is lost
		defer release()
		return handler(ctx, request)
	}
}

func Example_inFlight() {
	intercept := inFlight(brim.New(memory.New(nil), nil), 2)
	call := func(inner func() codes.Code) codes.Code {
		_, err := intercept(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/export"},
			func(context.Context, any) (any, error) { fmt.Println("a call in this one:", inner()); return nil, nil })
		return status.Code(err)
	}
	none := func() codes.Code { return codes.OK }
	fmt.Println(call(func() codes.Code { return call(func() codes.Code { return call(none) }) }))
	// Output:
	// a call in this one: ResourceExhausted
	// a call in this one: OK
	// OK
}
