package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/internal/failopen"
)

// Failure selects the answer to a call that the limit cannot decide because the store is out of
// reach.
type Failure = httplimit.Failure

const (
	// FailClosed fails the call with UNAVAILABLE. Use it if the limit protects something that must
	// not get too many calls, or never leaks.
	FailClosed = httplimit.FailClosed
	// FailOpen decides in the memory of this process, by a share of the same limits; see
	// [httplimit.FailOpen] for the bound.
	FailOpen = httplimit.FailOpen
	// FailUnlimited passes every call to the handler while the store is out of reach. A client that
	// overloads the store then has no limit.
	FailUnlimited = httplimit.FailUnlimited
)

// Policy is one of the limits that apply to a call. Each caller has a bucket of its own under each
// policy.
type Policy struct {
	// Name tells the policy from all others. It is part of the key of each bucket, so two policies
	// share a bucket only if they have the same name, and Limiters over the same store with the
	// same prefix. It belongs to one middleware of a Limiter; see [ServerOptions.Shared]. It is
	// required, and has 1 to 64 bytes of printable ASCII without a colon.
	Name string
	// Key tells callers apart, for instance by their credentials. If it is "", the caller is the
	// client's address: an IPv4 address, or the network of an IPv6 address, by
	// [ServerOptions.IPv6Prefix]. All calls without an address share a bucket, for instance those
	// that come over a Unix socket. A key that no store can keep, because it is too long or not
	// UTF-8, is replaced by its hash.
	//
	// The address is that of the connection. If a proxy stands in front, all its clients have the
	// address of the proxy: a Key must then tell the clients apart.
	Key string
	// Limit is the limit of each caller. [brim.Nobody] refuses each call without a RetryInfo, and
	// [brim.Unlimited] admits each without the store.
	Limit brim.Limit
	// Cost returns the cost of a call in units of the limit; nil means 1. The message is the
	// request of a unary call, and nil for a stream. An invalid amount (negative or not a number)
	// fails the call with INTERNAL. An amount above 2^53, which a client can cause by a large
	// message, fails it with INVALID_ARGUMENT.
	Cost func(ctx context.Context, method string, message any) float64
	// CountIf reports whether a call counts under this policy, by the code of its answer: for
	// logins that failed, code == codes.Unauthenticated. The policy is asked before the handler and
	// filled after it; a handler that panics has answered with Unknown. nil counts each call before
	// the handler.
	//
	// Calls that run at once are all asked before the first of them counts, so a burst of m
	// parallel calls can pass where one unit is left; all of them that count do count, and the
	// bucket is full then. Strict closes that gap.
	CountIf func(code codes.Code) bool
	// Strict charges each call before the handler, and gives the units back after it if CountIf
	// says that the call does not count, as [httplimit.Policy] does: no burst passes the limit, and
	// units that may have leaked meanwhile are not given back. Without CountIf, Strict means
	// nothing.
	Strict bool
}

// Policies selects the policies of calls. [PerClient] and [All] make some, and a [PolicyFunc] is a
// function of the application.
type Policies interface {
	// Select returns the policies of a call. They are decided together: the call is admitted if it
	// fits under all of them, and it is counted under none of them otherwise. Without policies, the
	// call is admitted. Method is the full name of the method, for instance
	// "/grpc.health.v1.Health/Check".
	//
	// Select is called on the goroutine of the call, so it must be safe for concurrent use. If it
	// returns an error, the call fails with INTERNAL, whatever [ServerOptions.OnUnavailable] says:
	// a client that can provoke the error must not get past the limit. To admit the call in spite
	// of an error, return no policy.
	Select(ctx context.Context, method string) ([]Policy, error)
}

// PolicyFunc is a function of the application as [Policies].
type PolicyFunc func(ctx context.Context, method string) ([]Policy, error)

// Select calls f.
func (f PolicyFunc) Select(ctx context.Context, method string) ([]Policy, error) {
	return f(ctx, method)
}

// named is Policies whose names are known before there is a call.
type named struct {
	PolicyFunc
	names []string
}

// PerClient returns a policy with the same limit for each client. A client is an address: see
// [Policy.Key].
func PerClient(name string, limit brim.Limit) Policies {
	all := []Policy{{Name: name, Limit: limit}}
	return named{func(context.Context, string) ([]Policy, error) { return all, nil }, []string{name}}
}

// All returns the policies of all members, in order.
func All(members ...Policies) Policies {
	var names []string
	for _, p := range members {
		if n, ok := p.(named); ok {
			names = append(names, n.names...)
		}
	}
	return named{func(ctx context.Context, method string) (all []Policy, err error) {
		for _, p := range members {
			some, err := p.Select(ctx, method)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}, names}
}

// ServerOptions adjust a [Server]. The zero value selects the defaults.
//
// The functions are called on the goroutine of the call, so they must be safe for concurrent use.
type ServerOptions struct {
	// Skip reports whether a call bypasses the limit, for instance a health check; nil means that
	// no call does.
	Skip func(ctx context.Context, method string) bool
	// IPv6Prefix is the number of bits of an IPv6 address that tell clients apart; 0 means 64. Some
	// providers give each customer 56 or 48 bits.
	IPv6Prefix int
	// Jitter is the greatest random time that is added to the RetryInfo. It keeps clients that were
	// refused together from coming back together.
	Jitter time.Duration
	// Refuse returns the error of a call that does not fit; nil means the function [Refusal], as a
	// nil error does. policy is the one with the longest wait, and st is its bucket, with the
	// Jitter in RetryAfter.
	Refuse func(ctx context.Context, method string, policy Policy, st brim.State) error
	// OnUnavailable selects the answer if the store is out of reach: [FailClosed], [FailOpen] or
	// [FailUnlimited]. After [brim.ErrFull] the call fails with UNAVAILABLE under each of them, and
	// after all other errors with INTERNAL, since somebody must mend something: the store is
	// misconfigured or closed, its data are damaged, a policy is invalid.
	OnUnavailable Failure
	// Timeout limits the duration of the call to the store, as in [httplimit.Options]: 0 means no
	// limit but the call's context, and under FailOpen local.DefaultPatience, 100 ms.
	Timeout time.Duration
	// Share is the share of each limit that this process admits under FailOpen, as in
	// [httplimit.Options].
	Share float64
	// Shared says that a policy may have the name of a policy of another middleware of the same
	// Limiter, as in [httplimit.Options].
	Shared bool
	// OnError is called if the store failed, or if the application's policies failed or were
	// invalid, before the call is answered; nil means that errors are dropped. The error does not
	// hold the key. OnError is not called if the call has ended meanwhile, nor for calls that
	// FailOpen decides.
	OnError func(ctx context.Context, method string, err error)
	// Logger gets the beginning and the end of each outage under FailOpen, and once a minute an
	// error that was answered with INTERNAL. nil is silent.
	Logger *slog.Logger
}

// Server limits the calls of a gRPC server, by its interceptors Unary and Stream. It is safe for
// concurrent use.
type Server struct {
	lim      *brim.Limiter
	policies Policies
	options  ServerOptions
	owner    *caller.Owner
	log      caller.Log
}

// NewServer returns a Server that puts the limits of policies in front of the calls. o may be nil.
//
// NewServer fails if lim or policies is nil, if an option is invalid, or if another middleware of
// lim has a policy of the same name; see [ServerOptions.Shared]. A policy that is invalid is known
// only when there is a call: the call then fails with INTERNAL, and OnError gets the error.
func NewServer(lim *brim.Limiter, policies Policies, o *ServerOptions) (*Server, error) {
	s := &Server{lim: lim, policies: policies}
	if o != nil {
		s.options = *o
	}
	switch {
	case lim == nil:
		return nil, errors.New("grpclimit: the Limiter is nil; make one with brim.New")
	case policies == nil:
		return nil, errors.New("grpclimit: there are no policies; make some with PerClient")
	case s.options.OnUnavailable > FailUnlimited:
		return nil, fmt.Errorf("grpclimit: OnUnavailable is %d; choose FailClosed, FailOpen or FailUnlimited", s.options.OnUnavailable)
	case s.options.Jitter < 0:
		return nil, fmt.Errorf("grpclimit: Jitter is %v; it must not be negative", s.options.Jitter)
	case s.options.Timeout < 0:
		return nil, fmt.Errorf("grpclimit: Timeout is %v; it must not be negative", s.options.Timeout)
	}
	err := caller.ValidateBits(s.options.IPv6Prefix)
	if s.options.Logger == nil {
		s.options.Logger = slog.New(slog.DiscardHandler)
	}
	if err == nil {
		known, _ := policies.(named)
		s.owner, err = caller.NewOwner(lim, known.names, s.options.Shared)
	}
	if err == nil && s.options.OnUnavailable == FailOpen {
		s.lim, err = failopen.Limiter(lim, s.options.Timeout, s.options.Share, s.options.Logger)
	}
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	return s, nil
}

// Unary is a [grpc.UnaryServerInterceptor].
func (s *Server) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	err = s.around(ctx, info.FullMethod, request, func() (err error) { response, err = handler(ctx, request); return err })
	return response, err
}

// Stream is a [grpc.StreamServerInterceptor]. It decides when the stream begins.
func (s *Server) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.around(stream.Context(), info.FullMethod, nil, func() error { return handler(srv, stream) })
}

// around calls handler if the call is admitted, and returns the error of the call.
func (s *Server) around(ctx context.Context, method string, message any, handler func() error) error {
	if s.options.Skip != nil && s.options.Skip(ctx, method) {
		return handler()
	}
	began := time.Now()
	policies, fills, err := s.fills(ctx, method, message)
	if err != nil {
		err = fmt.Errorf("%w: %w", errPolicies, err)
	}
	if slices.ContainsFunc(fills, tooLarge) {
		return errTooLarge
	}
	var states []brim.State
	if err == nil {
		states, err = s.try(ctx, fills)
	}
	switch {
	case err != nil:
		if err := s.failed(ctx, method, err); err != nil {
			return err
		}
		return handler()
	case len(states) > 0 && !states[0].Accepted:
		return s.refusal(ctx, method, policies, states)
	case !slices.ContainsFunc(policies, func(p Policy) bool { return p.CountIf != nil }):
		return handler()
	}
	charged := !slices.ContainsFunc(states, func(st brim.State) bool { return st.RetryAfter != 0 || st.Estimate })
	code := codes.Unknown // of a handler that panics
	defer func() {
		for i, p := range policies {
			if p.CountIf == nil || p.Limit == brim.Unlimited || p.Strict && !charged || p.CountIf(code) == p.Strict {
				continue
			}
			c := caller.Charge{Bucket: fills[i].Bucket, N: fills[i].Amount, Began: began, Timeout: s.options.Timeout}
			if p.Strict {
				c.At = states[i].At
			}
			if err := c.Correct(ctx, s.lim); err != nil && s.options.OnError != nil {
				s.options.OnError(ctx, method, fmt.Errorf("grpclimit: a call of policy %s was not counted rightly: %w", p.Name, err))
			}
		}
	}()
	err = handler()
	code = status.Code(err)
	return err
}

// refusal returns the error of a call that does not fit. It is that of the policy with the longest
// wait, since the call is refused until then.
func (s *Server) refusal(ctx context.Context, method string, policies []Policy, states []brim.State) error {
	longest := 0
	for i := range states {
		if states[i].RetryAfter > states[longest].RetryAfter {
			longest = i
		}
	}
	st := states[longest]
	if jitter := s.options.Jitter; jitter > 0 && st.RetryAfter < brim.Never-jitter {
		st.RetryAfter += rand.N(jitter)
	}
	if s.options.Refuse != nil {
		if err := s.options.Refuse(ctx, method, policies[longest], st); err != nil {
			return err
		}
	}
	return Refusal(st)
}

// fills returns the policies of a call, and its cost under each of them, with the bucket.
func (s *Server) fills(ctx context.Context, method string, message any) (policies []Policy, all []brim.Fill, err error) {
	if policies, err = s.policies.Select(ctx, method); err != nil {
		return nil, nil, err
	}
	all = make([]brim.Fill, len(policies))
	for i, p := range policies {
		if err := cmp.Or(caller.ValidateName(p.Name), s.owner.Use(p.Name)); err != nil {
			return nil, nil, err
		}
		all[i] = brim.Fill{Bucket: p.Limit.For(s.key(ctx, p)), Amount: 1, AskOnly: p.CountIf != nil && !p.Strict}
		if p.Cost != nil {
			all[i].Amount = p.Cost(ctx, method, message)
		}
	}
	return policies, all, nil
}

// try puts the costs into the buckets of a call if all fit, within Timeout.
func (s *Server) try(call context.Context, fills []brim.Fill) ([]brim.State, error) {
	ctx, cancel := s.within(call)
	defer cancel()
	var states []brim.State
	var err error
	if len(fills) == 1 && !fills[0].AskOnly { // most calls; a list takes memory
		states = make([]brim.State, 1)
		states[0], err = s.lim.TryFillup(ctx, fills[0].Bucket, fills[0].Amount)
	} else {
		states, err = s.lim.TryFillupAll(ctx, fills...)
	}
	for i := range states {
		if states[i].Estimate { // the handler does not run for a call whose deadline passed before memory decided
			err = cmp.Or(err, caller.Left(call))
		}
	}
	return states, err
}

// within returns a context that ends after Timeout, too. Under FailOpen, Timeout bounds the store
// itself, and then memory decides.
func (s *Server) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.options.Timeout > 0 && s.options.OnUnavailable != FailOpen {
		return context.WithTimeout(ctx, s.options.Timeout)
	}
	return ctx, func() {}
}

// failed returns the error of a call that the limit could not decide, or nil if it passes.
func (s *Server) failed(ctx context.Context, method string, err error) error {
	if left := caller.Left(ctx); left != nil {
		return ended(left)
	}
	if s.options.OnError != nil {
		s.options.OnError(ctx, method, err)
	}
	answer := undecided(err)
	switch {
	case answer.status.Code() == codes.Internal:
		// Somebody must mend something. A client that can provoke the error must not get past the
		// limit.
		s.log.Error(s.options.Logger, "grpclimit: a limit could not be decided until somebody mends this", err)
	case s.options.OnUnavailable == FailUnlimited && caller.OutOfReach(err):
		return nil
	}
	return answer
}

// key returns the key of the bucket that a policy has for a call.
func (s *Server) key(ctx context.Context, p Policy) string {
	if p.Key != "" {
		return caller.Key(p.Name, p.Key)
	}
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return caller.AddressKey(p.Name, netip.Addr{}, 0)
	}
	client, _ := netip.ParseAddrPort(from.Addr.String()) // an invalid one without an address
	return caller.AddressKey(p.Name, client.Addr(), s.options.IPv6Prefix)
}
