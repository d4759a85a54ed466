package frameworks

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/brimgo/brim"
)

// Unary returns an interceptor that limits the calls of a gRPC server. key returns the bucket of
// a call, for instance by its peer or its credentials. A refusal is RESOURCE_EXHAUSTED with a
// RetryInfo, or without one if no wait helps. If the store fails, the call fails with
// UNAVAILABLE. To admit the call instead, return handler(ctx, req) there.
func Unary(
	lim *brim.Limiter, limit brim.Limit, key func(ctx context.Context, method string) string,
) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		st, err := lim.TryFillup(ctx, limit.For(key(ctx, info.FullMethod)), 1)
		switch {
		case err != nil:
			return nil, status.Error(codes.Unavailable, "limits cannot be checked at the moment")
		case !st.Accepted:
			return nil, refusal(st.RetryAfter)
		}
		return handler(ctx, req)
	}
}

// refusal returns the status of a refused call.
func refusal(wait time.Duration) error {
	st := status.New(codes.ResourceExhausted, "the limit is reached")
	if wait != brim.Never {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}
