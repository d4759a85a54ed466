package grpclimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/grpclimit"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// perPlan limits each account by its plan, and all calls of an account by a day's limit beside it.
func perPlan(lim *brim.Limiter, plans map[string]brim.Limit, planOf func(context.Context) (account, plan string)) (*grpclimit.Server, error) {
	return grpclimit.NewServer(lim, grpclimit.PolicyFunc(func(ctx context.Context, _ string) ([]grpclimit.Policy, error) {
		account, plan := planOf(ctx)
		return []grpclimit.Policy{
			{Name: "plan", Key: account, Limit: plans[plan]},
			{Name: "day", Key: account, Limit: brim.Over(1000, 24*time.Hour)},
		}, nil
	}), nil)
}

// The limits come from a configuration. One plan has no limit but that of the day, and the account
// of another is closed.
func Example_limitPerPlan() {
	var plans map[string]brim.Limit
	err := json.Unmarshal([]byte(`{"free": "2/1h", "team": "unlimited", "closed": "nobody"}`), &plans)
	if err != nil {
		log.Fatal(err)
	}
	plan := ""
	limit := must(perPlan(brim.New(memory.New(nil), nil), plans, func(context.Context) (string, string) { return "account of " + plan, plan }))
	for _, plan = range []string{"free", "team", "closed"} {
		fmt.Println(plan, call(limit, "/get", ""), call(limit, "/get", ""), call(limit, "/get", ""))
	}
	// Output:
	// free OK OK ResourceExhausted
	// team OK OK OK
	// closed ResourceExhausted ResourceExhausted ResourceExhausted
}

// byLength lets health checks pass, charges each other call by the length of a field, and refuses
// in the program's own words.
func byLength(lim *brim.Limiter) (*grpclimit.Server, error) {
	length := func(_ context.Context, _ string, m any) float64 {
		return float64(len(m.(*healthpb.HealthCheckRequest).GetService()))
	}
	return grpclimit.NewServer(lim, grpclimit.PolicyFunc(func(context.Context, string) ([]grpclimit.Policy, error) {
		return []grpclimit.Policy{{Name: "bytes", Limit: brim.Over(10, time.Minute), Cost: length}}, nil
	}), &grpclimit.ServerOptions{
		Skip: func(_ context.Context, method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.") },
		Refuse: func(_ context.Context, method string, p grpclimit.Policy, st brim.State) error {
			return status.Errorf(codes.ResourceExhausted, "%s: %s are used up", method, p.Name)
		},
	})
}

func Example_skipCostAndRefusal() {
	limit := must(byLength(brim.New(memory.New(nil), nil)))
	fmt.Println(call(limit, "/get", "sixsix"), call(limit, "/get", "sixsix"), call(limit, "/grpc.health.v1.Health/Check", "sixsix"))
	// Output: OK ResourceExhausted OK
}

// outages has each of four processes admit a quarter of every limit while the store is out of
// reach.
func outages(s store.Store) (*grpclimit.Server, error) {
	return grpclimit.NewServer(brim.New(s, nil), grpclimit.PerClient("api", brim.Over(8, time.Hour)),
		&grpclimit.ServerOptions{OnUnavailable: grpclimit.FailOpen, Share: 0.25})
}

func Example_storeDown() {
	limit := must(outages(unreachable{}))
	fmt.Println(call(limit, "/get", ""), call(limit, "/get", ""), call(limit, "/get", ""))
	// Output: OK OK ResourceExhausted
}

// unreachable is a store whose server is down.
type unreachable struct{ store.Store }

func (unreachable) Fill(context.Context, store.Op) (store.State, error) {
	return store.State{}, store.ErrUnavailable
}

func must(limit *grpclimit.Server, err error) *grpclimit.Server {
	if err != nil {
		log.Fatal(err)
	}
	return limit
}

// call makes a call that succeeds if the limit admits it.
func call(limit *grpclimit.Server, method, service string) codes.Code {
	_, err := limit.Unary(context.Background(), &healthpb.HealthCheckRequest{Service: service}, &grpc.UnaryServerInfo{FullMethod: method},
		func(context.Context, any) (any, error) { return nil, nil })
	return status.Code(err)
}
