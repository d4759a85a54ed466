package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/clientkey"
)

// Failure selects the answer to a call that the limit could not decide because the store failed. It
// has no default: the application must choose.
type Failure = httplimit.Failure

const (
	// FailClosed fails the call with UNAVAILABLE. Use it if the limit protects something that must
	// not get too many calls.
	FailClosed = httplimit.FailClosed
	// FailOpen passes the call to the handler. Use it if serving calls matters more than the limit.
	FailOpen = httplimit.FailOpen
)

// ServerOptions adjust a [Server]. The zero value selects the defaults.
//
// The functions are called on the goroutine of the call, so they must be safe for concurrent use.
// Method is the full name of the method, for instance "/grpc.health.v1.Health/Check".
type ServerOptions struct {
	// Key returns the key of a call's bucket, for instance from its credentials. If it returns "",
	// or is nil, the key is the client's address: an IPv4 address, or the /64 network of an IPv6
	// address. All calls without an address share the bucket "ip:unknown", for instance those that
	// come over a Unix socket. A key that no store can keep, because it is too long or not UTF-8,
	// is replaced by its hash.
	//
	// The address is that of the connection. If a proxy stands in front, all its clients have the
	// address of the proxy: a Key must then tell the clients apart.
	Key func(ctx context.Context, method string) string
	// Cost returns the cost of a call in units of the limit; nil means 1. The message is the
	// request of a unary call, and nil for a stream. An invalid amount (negative or not a number)
	// fails the call with INTERNAL.
	Cost func(ctx context.Context, method string, message any) float64
	// Skip reports whether a call bypasses the limit, for instance a health check; nil means that
	// no call does.
	Skip func(ctx context.Context, method string) bool
	// Jitter is the greatest random time that is added to the RetryInfo. It keeps clients that were
	// refused together from coming back together.
	Jitter time.Duration
	// Timeout limits the duration of the call to the store; 0 means no limit but the call's
	// context. A call that takes longer counts as a failure of the store.
	Timeout time.Duration
	// OnError is called if the store failed or an argument was invalid, before the call is
	// answered; nil means that errors are dropped. The error does not hold the key.
	OnError func(ctx context.Context, method string, err error)
}

// Server limits the calls of a gRPC server, by its interceptors Unary and Stream. It is safe for
// concurrent use.
type Server struct {
	lim     *brim.Limiter
	limit   brim.Limit
	open    bool
	options ServerOptions
}

// NewServer returns a Server that puts limit in front of the calls. o may be nil. It fails if lim
// is nil, or if limit, onFailure or an option is invalid.
func NewServer(lim *brim.Limiter, limit brim.Limit, onFailure Failure, o *ServerOptions) (*Server, error) {
	s := &Server{lim: lim, limit: limit, open: onFailure == FailOpen}
	if o != nil {
		s.options = *o
	}
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	switch {
	case lim == nil:
		return nil, errors.New("grpclimit: the Limiter is nil; make one with brim.New")
	case onFailure != FailClosed && onFailure != FailOpen:
		return nil, fmt.Errorf("grpclimit: Failure is %d; choose FailClosed or FailOpen", onFailure)
	case s.options.Jitter < 0:
		return nil, fmt.Errorf("grpclimit: Jitter is %v; it must not be negative", s.options.Jitter)
	case s.options.Timeout < 0:
		return nil, fmt.Errorf("grpclimit: Timeout is %v; it must not be negative", s.options.Timeout)
	}
	return s, nil
}

// Unary is a [grpc.UnaryServerInterceptor].
func (s *Server) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// Stream is a [grpc.StreamServerInterceptor]. It decides when the stream begins.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return handler(srv, stream)
}

// admit returns the error of a call that must not reach the handler, or nil.
func (s *Server) admit(ctx context.Context, method string, message any) error {
	if s.options.Skip != nil && s.options.Skip(ctx, method) {
		return nil
	}
	n := 1.0
	if s.options.Cost != nil {
		n = s.options.Cost(ctx, method, message)
	}
	st, err := s.try(ctx, s.limit.For(s.key(ctx, method)), n)
	switch {
	case err != nil:
		return s.failed(ctx, method, err)
	case st.Accepted:
		return nil
	}
	if jitter := s.options.Jitter; jitter > 0 && st.RetryAfter < brim.Never-jitter {
		st.RetryAfter += rand.N(jitter)
	}
	return Refusal(st)
}

// try puts n units into b, within Timeout.
func (s *Server) try(ctx context.Context, b brim.Bucket, n float64) (brim.State, error) {
	if s.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
	}
	return s.lim.TryFillup(ctx, b, n)
}

// failed returns the error of a call that the limit could not decide, or nil if it passes.
func (s *Server) failed(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return ended(ctx.Err())
	}
	if s.options.OnError != nil {
		s.options.OnError(ctx, method, err)
	}
	if answer := undecided(err); !s.open || answer.status.Code() == codes.Internal {
		// The application has made an invalid argument. A client that can provoke it must not get
		// past the limit by FailOpen.
		return answer
	}
	return nil
}

// key returns the key of a call's bucket.
func (s *Server) key(ctx context.Context, method string) string {
	if s.options.Key != nil {
		if key := s.options.Key(ctx, method); key != "" {
			return clientkey.Storable(key)
		}
	}
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return clientkey.Unknown
	}
	client, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return clientkey.Unknown
	}
	return clientkey.OfAddress(client.Addr().Unmap())
}
