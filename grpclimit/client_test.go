package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// queue returns a Shaper over a store on the system's clock, and the store.
func queue(t *testing.T, o *brim.ShaperOptions) (*brim.Shaper, *failing) {
	t.Helper()
	s := memory.New(nil)
	f := &failing{Store: s}
	turns, err := brim.NewShaper(brim.New(f, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	return turns, f
}

func newClient(t *testing.T, s *brim.Shaper, l brim.Limit, o *ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(s, l.For("api"), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calls are the ways through a client's interceptors to a server that answers each call by serve.
var calls = map[string]func(ctx context.Context, c *Client, serve func() error) error{
	"unary": func(ctx context.Context, c *Client, serve func() error) error {
		return c.Unary(ctx, "/a/b", "request", "reply", nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return serve() })
	},
	"stream": func(ctx context.Context, c *Client, serve func() error) error {
		_, err := c.Stream(ctx, nil, nil, "/a/b",
			func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				return nil, serve()
			})
		return err
	},
}

// TestClientTakesTurns makes calls one after another. They begin as far apart as the bucket leaks.
func TestClientTakesTurns(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, _ := queue(t, nil)
				c := newClient(t, turns, brim.Smooth(2, time.Minute), &ClientOptions{
					Cost: func(_ context.Context, _ string, message any) float64 {
						if (message != nil) != (name == "unary") {
							t.Errorf("message %v", message)
						}
						return 3
					},
				})
				begin := time.Now()
				for i := range 5 {
					err := call(t.Context(), c, func() error {
						if at := time.Since(begin); at.Round(time.Millisecond) != time.Duration(i)*1500*time.Millisecond {
							t.Errorf("call %d begins after %v", i, at)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestClientErrors sees the status of calls that are not made.
func TestClientErrors(t *testing.T) {
	notMade := func() error { return errors.New("the call was made") }
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, s := queue(t, &brim.ShaperOptions{MaxWait: time.Second})
				c := newClient(t, turns, brim.Smooth(1, time.Minute), nil)
				for range 2 {
					if err := call(t.Context(), c, func() error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				err := call(ctx, c, notMade)
				answered(t, err, codes.ResourceExhausted, 900*time.Millisecond)
				if over := (*brim.OverLimitError)(nil); !errors.As(err, &over) || time.Since(begin) != 0 {
					t.Errorf("%v after %v; want an OverLimitError at once", err, time.Since(begin))
				}
				cancel()
				answered(t, call(ctx, c, notMade), codes.Canceled, -1)
				s.fails = true
				if err := call(t.Context(), c, notMade); status.Code(err) != codes.Unavailable || !errors.Is(err, errBroken) {
					t.Errorf("a failing store: %v; want UNAVAILABLE, with the cause in it", err)
				}
				s.with = context.DeadlineExceeded
				if err := call(t.Context(), c, notMade); status.Code(err) != codes.Unavailable || !errors.Is(err, errBroken) {
					t.Errorf("a store that took too long: %v; want UNAVAILABLE, since the caller has no deadline", err)
				}
			})
		})
	}
}

// TestClientRetries sees how often a unary call is made, and when, if the server refuses it.
func TestClientRetries(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name     string
		refusals int           // of the server
		wait     time.Duration // of its RetryInfo; brim.Never for none
		by       codes.Code    // 0 for RESOURCE_EXHAUSTED
		o        ClientOptions
		deadline time.Duration
		calls    int
		took     time.Duration // without random times
		want     codes.Code
	}{
		{name: "one refusal", refusals: 1, wait: 5 * second, calls: 2, took: 5 * second},
		{name: "unavailable", refusals: 1, wait: 5 * second, by: codes.Unavailable, calls: 2, took: 5 * second},
		{name: "unavailable without a RetryInfo", refusals: 1, wait: brim.Never, by: codes.Unavailable, calls: 1, want: codes.Unavailable},
		{name: "another code", refusals: 1, wait: 5 * second, by: codes.Aborted, calls: 1, want: codes.Aborted},
		{name: "as many as retries", refusals: 5, wait: 5 * second, calls: 6, took: 25 * second},
		{name: "more than retries", refusals: 6, wait: 5 * second, calls: 6, took: 25 * second, want: codes.ResourceExhausted},
		{name: "two retries", refusals: 3, wait: 5 * second, o: ClientOptions{Retries: 2}, calls: 3, took: 10 * second, want: codes.ResourceExhausted},
		{name: "no retries", refusals: 1, wait: 5 * second, o: ClientOptions{Retries: -1}, calls: 1, want: codes.ResourceExhausted},
		{name: "without a RetryInfo", refusals: 1, wait: brim.Never, calls: 1, want: codes.ResourceExhausted},
		{name: "a long wait", refusals: 1, wait: 61 * second, calls: 1, want: codes.ResourceExhausted},
		{name: "a longer MaxRetryAfter", refusals: 1, wait: 61 * second, o: ClientOptions{MaxRetryAfter: 61 * second}, calls: 2, took: 61 * second},
		{name: "after the deadline", refusals: 1, wait: 5 * second, deadline: 4 * second, calls: 1, want: codes.ResourceExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, _ := queue(t, nil)
				client := newClient(t, turns, brim.Smooth(1000, time.Minute), &c.o)
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begin, made := time.Now(), 0
				err := calls["unary"](ctx, client, func() error {
					if made++; made > c.refusals {
						return nil
					}
					refusal := status.Convert(Refusal(brim.State{RetryAfter: c.wait})).Proto()
					refusal.Code = int32(cmp.Or(c.by, codes.ResourceExhausted))
					return status.ErrorProto(refusal)
				})
				random := second<<(made-1) - second // a second before the first retry, and then twice as long each time
				if took := time.Since(begin); status.Code(err) != c.want || made != c.calls || took < c.took || took > c.took+random {
					t.Errorf("%v, %d calls in %v; want %v, %d in %v and up to %v more", err, made, took, c.want, c.calls, c.took, random)
				}
			})
		})
	}
}

// TestClientAndServer lets a client keep to the limit of a real server, and obey its refusals.
func TestClientAndServer(t *testing.T) {
	s := memory.New(nil)
	limit := newServer(t, brim.New(s, nil), PerClient("api", brim.Limit{Capacity: 1, LeakRate: 20}), nil)
	turns, _ := queue(t, nil)
	eager := newClient(t, turns, brim.Smooth(10_000, time.Minute), &ClientOptions{Retries: 20, MaxRetryAfter: 100 * time.Millisecond})
	c := serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream)},
		[]grpc.DialOption{grpc.WithUnaryInterceptor(eager.Unary), grpc.WithStreamInterceptor(eager.Stream)})
	begin := time.Now()
	for range 5 {
		if err := check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("five calls took %v; the server admits one, and then one in 50 ms", took)
	}
}

func TestNewClient(t *testing.T) {
	turns, _ := queue(t, nil)
	b := three.For("api")
	for says, create := range map[string]func() (*Client, error){
		"Shaper is nil":       func() (*Client, error) { return NewClient(nil, b, nil) },
		"key":                 func() (*Client, error) { return NewClient(turns, three.For(""), nil) },
		"leak rate is 0":      func() (*Client, error) { return NewClient(turns, brim.Limit{Capacity: 1}.For("api"), nil) },
		"MaxRetryAfter is -1": func() (*Client, error) { return NewClient(turns, b, &ClientOptions{MaxRetryAfter: -1}) },
	} {
		if c, err := create(); c != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want an error that says %q", c, err, says)
		}
	}
}
