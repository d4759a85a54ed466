package grpclimit

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
)

// callError is an error with the status that gRPC sends and reports for it.
type callError struct {
	err    error
	status *status.Status
}

func (e *callError) Error() string { return e.status.Err().Error() }

// Unwrap returns the cause, which is not sent.
func (e *callError) Unwrap() error { return e.err }

// GRPCStatus is how package status finds the status.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Refusal returns the error of a call that a Limiter refused with st: RESOURCE_EXHAUSTED, with
// a RetryInfo of st.RetryAfter unless no wait helps. It wraps a [*brim.OverLimitError]. It is for
// handlers that ask the Limiter themselves.
func Refusal(st brim.State) error {
	over := &brim.OverLimitError{State: st}
	if st.RetryAfter >= brim.Never {
		return &callError{over, status.New(codes.ResourceExhausted, "the limit is reached, and waiting will not change that")}
	}
	s := status.New(codes.ResourceExhausted, "the limit is reached")
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(st.RetryAfter)})
	if err == nil { // a RetryInfo can always be marshalled
		s = detailed
	}
	return &callError{over, s}
}

// errPolicies marks errors of the application's policies.
var errPolicies = errors.New("grpclimit: the policies of a call")

// tooLarge reports whether a call costs more than any limit can admit. The cost may come from the
// client, as the size of its message does, so it is no fault of the application.
func tooLarge(cost brim.Fill) bool { return cost.Amount > 1<<53 }

var errTooLarge = &callError{
	brim.ErrInvalidAmount, status.New(codes.InvalidArgument, "the call costs more than any limit can admit"),
}

// undecided returns the error of a call that the limit could not decide because of err.
func undecided(err error) *callError {
	if errors.Is(err, errPolicies) || !caller.Away(err) {
		return &callError{err, status.New(codes.Internal, "the limit is misconfigured")}
	}
	return &callError{err, status.New(codes.Unavailable, "limits cannot be checked at the moment")}
}

// ended returns the error of a call whose context has ended: CANCELED or DEADLINE_EXCEEDED.
func ended(err error) *callError { return &callError{err, status.FromContextError(err)} }

// retryAfter returns the wait that a server's refusal demands, if err is one with a RetryInfo.
func retryAfter(err error) (time.Duration, bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}
