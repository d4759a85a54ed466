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

// Unary limits the calls of a gRPC server: key names the bucket of a call, by its peer or its credentials for instance. A refusal
// is RESOURCE_EXHAUSTED with a RetryInfo, and without one where no wait helps. If the store fails, so does the call: whoever
// wants it to go on returns handler(ctx, req) there.
func Unary(lim *brim.Limiter, limit brim.Limit, key func(ctx context.Context, method string) string) grpc.UnaryServerInterceptor {
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

func refusal(wait time.Duration) error {
	st := status.New(codes.ResourceExhausted, "the limit is reached")
	if wait != brim.Never {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}
