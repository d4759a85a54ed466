// Package httplimit limits the requests to an HTTP handler, and the requests of an HTTP client.
//
//	limited, err := httplimit.New(lim, httplimit.PerClient("api", brim.Over(100, time.Minute)), nil)
//	...
//	http.ListenAndServe(addr, limited(mux))
//
// A [Policy] is a name, a key and a limit. [PerClient] has one for each client's address, and a
// function of the request selects others: per account, per plan, per route, and several at once.
// A request that fits under all its policies reaches the handler. A request that does not fit is
// answered with status 429 (RFC 6585, section 4) and Retry-After in whole seconds (RFC 9110,
// section 10.2.3), and counts under none of them. A request that costs more than a bucket holds is
// answered with status 413 (RFC 9110, section 15.5.14) and no Retry-After, because no wait would
// help.
//
// A handler that finds the cost of a request by itself asks the Limiter and answers a refusal by
// [Refuse].
//
// [Transport] is the client's side: it waits for its turn in a bucket before it sends a request.
//
// A bucket that starts empty lets about twice its capacity through in the time that a full bucket
// takes to drain; see package brim.
package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/internal/failopen"
	"github.com/brimgo/brim/store"
)

// Failure selects the answer to a request that the limit cannot decide because the store is out of
// reach.
type Failure uint8

const (
	// FailClosed answers with status 503. Use it if the limit protects something that must not
	// get too many requests, or never leaks.
	FailClosed Failure = iota
	// FailOpen decides in the memory of this process, by a share of the same limits, as Fallback in
	// package local does. Use it if serving requests matters more than the exact limit. In an
	// outage of length T, each process admits at most Share * (c + r * T) units more for a caller
	// under a limit of capacity c and leak rate r, and at most twice that if more than 100,000
	// callers come meanwhile.
	FailOpen
	// FailUnlimited passes every request to the handler while the store is out of reach. A client
	// that overloads the store then has no limit.
	FailUnlimited
)

// Fields selects the header fields that tell clients their quota.
type Fields uint8

const (
	// NoFields sends no field but the Retry-After of a refusal.
	NoFields Fields = iota
	// DraftFields sends RateLimit-Policy and RateLimit in the form of
	// draft-ietf-httpapi-ratelimit-headers-10, which revision 11 left unchanged. A refusal has
	// the problem type of that draft.
	DraftFields
	// XRateLimitFields sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset,
	// which no document defines. Reset is the number of seconds until the bucket is empty and not
	// blocked; there is no such field if the bucket never gets empty.
	XRateLimitFields
	// XRateLimitDates is XRateLimitFields with the date in the place of the seconds in Reset, in
	// seconds since 1970 on the store's clock, as the API of GitHub, ulule/limiter and httprate
	// send it.
	XRateLimitDates
)

// Options adjust the handlers that [New] makes. The zero value selects the defaults.
//
// The functions are called on the goroutine of the request, so they must be safe for concurrent
// use.
type Options struct {
	// Clients tells clients apart by their addresses, for policies without a Key. Behind a proxy it
	// must know the proxies, or all clients are the proxy.
	Clients Clients

	// Skip reports whether a request bypasses the limit, for instance a health check; nil means
	// that no request does.
	Skip func(r *http.Request) bool

	// Refuse answers a request that does not fit, in the place of the problem document; nil means
	// that document. The header has the Fields and Retry-After already. The status is that of the
	// refusal unless Refuse sends another one; a Refuse that does nothing is an answer without a
	// body.
	Refuse func(w http.ResponseWriter, r *http.Request, refusal Refusal)
	// Fields selects the header fields beside Retry-After.
	Fields Fields
	// Jitter is the greatest random time that is added to Retry-After. It keeps clients that were
	// refused together from coming back together.
	Jitter time.Duration

	// OnUnavailable selects the answer if the store is out of reach: [FailClosed], [FailOpen] or
	// [FailUnlimited]. [brim.ErrFull] is answered with status 503 under each of them, and all other
	// errors with status 500, since somebody must mend something: the store is misconfigured or
	// closed, its data are damaged, a policy is invalid.
	OnUnavailable Failure
	// Timeout limits the duration of the call to the store. A call that takes longer finds the
	// store out of reach. 0 means no limit but the request's context, and under FailOpen
	// local.DefaultPatience, 100 ms. Under FailOpen, the call goes on without a request whose
	// deadline is nearer, for Timeout at most, and there are at most 1,024 such calls at a time.
	Timeout time.Duration
	// Share is the share of each limit that this process admits under FailOpen, above 0 and up to
	// 1; 0 means local.DefaultShare, the whole limit. With 1/N, N processes admit one limit
	// together.
	Share float64
	// Shared says that a policy may have the name of a policy of another middleware of the same
	// Limiter, so that both share the buckets of their clients: of HTTP and gRPC, or of one that is
	// made anew while the program runs. Without it, New fails if it knows the name, as of
	// [PerClient], and else each request with such a policy is answered with status 500. The
	// middleware that was made first keeps the name. Up to 1,000 names are compared.
	Shared bool
	// OnError is called if the store failed, or if the application's policies failed or were
	// invalid, before the request is answered; nil means that errors are dropped. The error does
	// not hold the key. OnError is not called if the client has left meanwhile, nor for requests
	// that FailOpen decides.
	OnError func(r *http.Request, err error)
	// Logger gets the beginning and the end of each outage under FailOpen, and once a minute an
	// error that was answered with status 500. nil is silent.
	Logger *slog.Logger
}

// New returns a function that puts the limits of policies in front of a handler. All handlers that
// it wraps share the buckets, and they are safe for concurrent use. o may be nil.
//
// Handlers may be nested. The fields of an inner one are added to those of an outer one, except
// that [XRateLimitFields], which have no form for two limits, stay those of the outer one.
//
// New fails if lim or policies is nil, if an option is invalid, or if another middleware of lim has
// a policy of the same name; see [Options.Shared]. A policy that is invalid is known only when
// there is a request: the answer is then status 500, and OnError gets the error.
func New(lim *brim.Limiter, policies Policies, o *Options) (func(http.Handler) http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	switch {
	case lim == nil:
		return nil, errors.New("httplimit: the Limiter is nil; make one with brim.New")
	case policies == nil:
		return nil, errors.New("httplimit: there are no policies; make some with PerClient")
	case o.OnUnavailable > FailUnlimited:
		return nil, fmt.Errorf("httplimit: OnUnavailable is %d; choose FailClosed, FailOpen or FailUnlimited", o.OnUnavailable)
	case o.Fields > XRateLimitDates:
		return nil, fmt.Errorf("httplimit: Fields is %d; choose NoFields, DraftFields, XRateLimitFields or XRateLimitDates", o.Fields)
	case o.Jitter < 0:
		return nil, fmt.Errorf("httplimit: Jitter is %v; it must not be negative", o.Jitter)
	case o.Timeout < 0:
		return nil, fmt.Errorf("httplimit: Timeout is %v; it must not be negative", o.Timeout)
	}
	clients, err := o.Clients.check()
	if err != nil {
		return nil, err
	}
	l := &limited{lim: lim, policies: policies, options: *o}
	l.options.Clients = clients
	if l.options.Logger == nil {
		l.options.Logger = slog.New(slog.DiscardHandler)
	}
	known, _ := policies.(named)
	if l.owner, err = caller.NewOwner(lim, known.names, o.Shared); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if o.OnUnavailable == FailOpen {
		if l.lim, err = failopen.Limiter(lim, o.Timeout, o.Share, l.options.Logger); err != nil {
			return nil, fmt.Errorf("httplimit: %w", err)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, next) })
	}, nil
}

// limited is the limits in front of some handlers.
type limited struct {
	lim      *brim.Limiter
	policies Policies
	options  Options
	owner    *caller.Owner
	log      caller.Log
}

func (l *limited) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if l.options.Skip != nil && l.options.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	began := time.Now()
	parts, err := l.parts(r)
	if err != nil {
		l.failed(w, r, fmt.Errorf("%w: %w", errPolicies, err), next)
		return
	}
	for i := range parts {
		// A Content-Length may exceed any valid amount. Such a request is too large.
		if p := &parts[i]; p.cost > store.MaxAmount {
			p.state = brim.State{Capacity: p.Limit.Capacity, LeakRate: p.Limit.LeakRate, RetryAfter: brim.Never}
			l.refuse(w, r, parts[i:i+1])
			return
		}
	}
	if err := l.try(r, parts); err != nil {
		l.failed(w, r, err, next)
		return
	}
	accepted := len(parts) == 0 || parts[0].state.Accepted
	charged := !slices.ContainsFunc(parts, func(p part) bool { return p.state.RetryAfter != 0 || p.state.Estimate })
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.Limit == brim.Unlimited })
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.fits(), b.fits()) })
	l.options.Fields.set(w.Header(), parts)
	if !accepted {
		l.refuse(w, r, parts)
		return
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.CountIf == nil || p.Strict && !charged })
	if len(parts) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	answer := &answer{ResponseWriter: w}
	defer l.count(r, parts, answer, began)
	next.ServeHTTP(answer, r)
	answer.ended = true
}

// try puts the costs into the buckets of the request if all fit, within Timeout.
func (l *limited) try(r *http.Request, parts []part) error {
	ctx, cancel := l.within(r.Context())
	defer cancel()
	if len(parts) == 1 && !parts[0].after() { // most requests; a list takes memory
		p := &parts[0]
		var err error
		p.state, err = l.lim.TryFillup(ctx, p.bucket, p.cost)
		return cmp.Or(err, leftMeanwhile(r, p.state))
	}
	fills := make([]brim.Fill, len(parts))
	for i, p := range parts {
		fills[i] = brim.Fill{Bucket: p.bucket, Amount: p.cost, AskOnly: p.after()}
	}
	states, err := l.lim.TryFillupAll(ctx, fills...)
	for i := range states {
		parts[i].state = states[i]
		err = cmp.Or(err, leftMeanwhile(r, states[i]))
	}
	return err
}

// leftMeanwhile returns the error of a request whose deadline has passed before memory decided. The
// handler does not run for it.
func leftMeanwhile(r *http.Request, st brim.State) error {
	if !st.Estimate {
		return nil
	}
	return caller.Left(r.Context())
}

// within returns a context that ends after Timeout, too. Under FailOpen, Timeout bounds the store
// itself, and then memory decides.
func (l *limited) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.options.Timeout > 0 && l.options.OnUnavailable != FailOpen {
		return context.WithTimeout(ctx, l.options.Timeout)
	}
	return ctx, func() {}
}

// count charges the policies that go by the status of the answer. The work is done, so it counts
// even if the client has left, or if others have taken the room meanwhile.
func (l *limited) count(r *http.Request, parts []part, a *answer, began time.Time) {
	for _, p := range parts {
		if p.CountIf(a.final()) == p.Strict {
			continue
		}
		c := caller.Charge{Bucket: p.bucket, N: p.cost, Began: began, Timeout: l.options.Timeout}
		if p.Strict {
			c.At = p.state.At
		}
		if err := c.Correct(r.Context(), l.lim); err != nil && l.options.OnError != nil {
			l.options.OnError(r, fmt.Errorf("httplimit: a request of policy %s was not counted rightly: %w", p.Name, err))
		}
	}
}

// Refusal is a request that does not fit, for [Options.Refuse].
type Refusal struct {
	Status   int        // 429, or 413 if the cost exceeds the capacity
	Policy   Policy     // the one with the longest wait
	Cost     float64    // of the request under Policy, in units
	State    brim.State // of the bucket under Policy; RetryAfter has the Jitter in it
	Violated []string   // the names of all policies that refused
}

// refuse answers a request that does not fit. The answer is that of the policy with the longest
// wait, since the request is refused until then.
func (l *limited) refuse(w http.ResponseWriter, r *http.Request, parts []part) {
	longest := &parts[0]
	var violated []string
	for i := range parts {
		p := &parts[i]
		if p.state.RetryAfter == 0 {
			continue // there is room under this policy
		}
		violated = append(violated, p.Name)
		if p.state.RetryAfter > longest.state.RetryAfter {
			longest = p
		}
	}
	st := longest.state
	if jitter := l.options.Jitter; jitter > 0 && st.RetryAfter < brim.Never-jitter {
		st.RetryAfter += rand.N(jitter)
	}
	refusal := Refusal{Policy: longest.Policy, Cost: longest.cost, State: st, Violated: violated}
	refusal.announce(w.Header())
	if l.options.Refuse != nil {
		refusal.by(l.options.Refuse, w, r)
		return
	}
	refusal.write(w, l.options.Fields)
}

// errPolicies marks errors of the application's policies.
var errPolicies = errors.New("httplimit: the policies of a request")

// failed answers a request that the limit could not decide.
func (l *limited) failed(w http.ResponseWriter, r *http.Request, err error, next http.Handler) {
	unavailable := problem{
		Title: "Service Unavailable", Status: http.StatusServiceUnavailable,
		Detail: "Limits cannot be checked at the moment.",
	}
	if caller.Left(r.Context()) != nil {
		writeProblem(w, unavailable) // for the log of the server: the client does not read it
		return
	}
	if l.options.OnError != nil {
		l.options.OnError(r, err)
	}
	switch {
	case errors.Is(err, errPolicies), !caller.Away(err):
		// Somebody must mend something. A client that can provoke the error must not get past the
		// limit.
		l.log.Error(l.options.Logger, "httplimit: a limit could not be decided until somebody mends this", err)
		writeProblem(w, problem{Title: "Internal Server Error", Status: http.StatusInternalServerError})
	case l.options.OnUnavailable == FailUnlimited && caller.OutOfReach(err):
		next.ServeHTTP(w, r)
	default:
		writeProblem(w, unavailable)
	}
}
