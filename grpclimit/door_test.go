package grpclimit

import (
	"context"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/doortest"
)

var outcomes = map[codes.Code]doortest.Outcome{
	codes.OK: doortest.Served, codes.Unauthenticated: doortest.Failed, codes.Unknown: doortest.Panicked,
	codes.ResourceExhausted: doortest.Refused,
}

// bare is a stream that nothing is sent over.
type bare struct {
	grpc.ServerStream
	ctx context.Context
}

func (s bare) Context() context.Context { return s.ctx }

func TestDoor(t *testing.T) {
	for way, intercept := range map[string]func(s *Server, ctx context.Context, h func() error) error{
		"unary": func(s *Server, ctx context.Context, h func() error) error {
			_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, h() })
			return err
		},
		"stream": func(s *Server, ctx context.Context, h func() error) error {
			return s.Stream(nil, bare{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/a/b"}, func(any, grpc.ServerStream) error { return h() })
		},
	} {
		t.Run(way, func(t *testing.T) {
			doortest.Run(t, doortest.Door{
				Policy: reflect.TypeFor[Policy](),
				Handle: func(t *testing.T, lim *brim.Limiter, nested [][]doortest.Policy) func(func() doortest.Outcome) doortest.Outcome {
					return func(handler func() doortest.Outcome) (out doortest.Outcome) {
						h := func() error {
							switch handler() {
							case doortest.Panicked:
								panic("the handler")
							case doortest.Failed:
								return status.Error(codes.Unauthenticated, "wrong password")
							}
							return nil
						}
						for i := range nested {
							policies := ours(nested[len(nested)-1-i])
							s := newServer(t, lim, PolicyFunc(func(context.Context, string) ([]Policy, error) { return policies, nil }), &ServerOptions{Shared: true})
							next := h
							h = func() error { return intercept(s, t.Context(), next) }
						}
						defer func() {
							if recover() != nil {
								out = doortest.Panicked
							}
						}()
						return outcomes[status.Code(h())]
					}
				},
			})
		})
	}
}

func ours(list []doortest.Policy) (all []Policy) {
	for _, p := range list {
		own := Policy{Name: p.Name, Key: p.Key, Limit: p.Limit, Strict: p.Strict}
		if p.Cost != 0 {
			own.Cost = func(context.Context, string, any) float64 { return p.Cost }
		}
		if p.CountIf != nil {
			own.CountIf = func(code codes.Code) bool { return p.CountIf(outcomes[code]) }
		}
		all = append(all, own)
	}
	return all
}
