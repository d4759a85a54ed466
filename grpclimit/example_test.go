package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
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
