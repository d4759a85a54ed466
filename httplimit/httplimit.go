// Package httplimit limits the requests to an HTTP handler, and the requests of an HTTP client.
//
//	limited, err := httplimit.New(lim, brim.Over(100, time.Minute), httplimit.FailClosed, nil)
//	...
//	http.ListenAndServe(addr, limited(mux))
//
// Each client has a bucket, by default one per address. A request that fits reaches the handler.
// A request that does not fit is answered with status 429 (RFC 6585, section 4) and Retry-After
// in whole seconds (RFC 9110, section 10.2.3). A request that costs more than the bucket holds is
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
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"github.com/brimgo/brim"
)

// Failure selects the answer to a request that the limit could not decide because the store
// failed. It has no default: the application must choose.
type Failure uint8

const (
	// FailClosed answers with status 503. Use it if the limit protects something that must not
	// get too many requests.
	FailClosed Failure = iota + 1
	// FailOpen passes the request to the handler. Use it if serving requests matters more than
	// the limit.
	FailOpen
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
)

// Options adjust the handlers that [New] makes. The zero value selects the defaults.
//
// The functions are called on the goroutine of the request, so they must be safe for concurrent
// use.
type Options struct {
	// Key returns the key of a request's bucket: see [ByHeader]. If it returns "", or is nil, the
	// key is the client's address: an IPv4 address, or the /64 network of an IPv6 address, since
	// a client usually has all addresses of its /64. The address is Request.RemoteAddr, with or
	// without a port. All requests without an address share the bucket "ip:unknown", for instance
	// those that come over a Unix socket: a Key must tell their clients apart. A key that no store
	// can keep, because it is too long or not UTF-8, is replaced by its hash.
	Key func(r *http.Request) string
	// TrustedProxies are the networks of the application's own proxies. If a request comes from
	// one of these networks, the client is the last address in X-Forwarded-For that is not in
	// them. In any other request the field is ignored, because any client can send it.
	TrustedProxies []netip.Prefix
	// Forwarded reads the field Forwarded (RFC 7239) instead of X-Forwarded-For. Choose the field
	// that the proxies write. The client may have written the other field.
	Forwarded bool

	// Cost returns the cost of a request in units of the limit; nil means 1. See [ContentLength].
	// If Cost returns an invalid amount (negative or not a number), the request is answered with
	// status 500 and OnError is called. To limit by the number of items in a body, read the body
	// in a handler in front of the limit, and pass the number through the request's context.
	Cost func(r *http.Request) float64
	// Skip reports whether a request bypasses the limit, for instance a health check; nil means
	// that no request does.
	Skip func(r *http.Request) bool

	// Fields selects the header fields beside Retry-After.
	Fields Fields
	// Policy is the name of the limit in DraftFields; "" means "default".
	Policy string
	// Unit is the quota unit in DraftFields, for instance "content-bytes"; "" means requests.
	Unit string
	// Jitter is the greatest random time that is added to Retry-After. It keeps clients that were
	// refused together from coming back together.
	Jitter time.Duration

	// Timeout limits the duration of the call to the store; 0 means no limit but the request's
	// context. A call that takes longer counts as a failure of the store.
	Timeout time.Duration
	// OnError is called if the store failed or Cost returned an invalid amount, before the
	// request is answered; nil means that errors are dropped. The error does not hold the key.
	OnError func(r *http.Request, err error)
}

// New returns a function that puts limit in front of a handler. All handlers that it wraps share
// the buckets, and they are safe for concurrent use. o may be nil.
//
// New fails if lim is nil, or if limit, onFailure or an option is invalid.
func New(lim *brim.Limiter, limit brim.Limit, onFailure Failure, o *Options) (func(http.Handler) http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	switch {
	case lim == nil:
		return nil, errors.New("httplimit: the Limiter is nil; make one with brim.New")
	case onFailure != FailClosed && onFailure != FailOpen:
		return nil, fmt.Errorf("httplimit: Failure is %d; choose FailClosed or FailOpen", onFailure)
	case o.Jitter < 0:
		return nil, fmt.Errorf("httplimit: Jitter is %v; it must not be negative", o.Jitter)
	case o.Timeout < 0:
		return nil, fmt.Errorf("httplimit: Timeout is %v; it must not be negative", o.Timeout)
	}
	l := &limited{lim: lim, limit: limit, open: onFailure == FailOpen, options: *o}
	var err error
	if l.trusted, err = networks(o.TrustedProxies); err != nil {
		return nil, err
	}
	if l.fields, err = newFields(limit, o); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, next) })
	}, nil
}

// limited is the limit in front of some handlers.
type limited struct {
	lim     *brim.Limiter
	limit   brim.Limit
	open    bool
	options Options
	trusted []netip.Prefix
	fields  fields
}

func (l *limited) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if l.options.Skip != nil && l.options.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	n := costOf(r, l.options.Cost)
	st, err := l.try(r, n)
	if err != nil && errors.Is(err, brim.ErrInvalidAmount) && n > l.limit.Capacity {
		err = nil // a Content-Length may exceed any valid amount; such a request is too large
	}
	if err != nil {
		l.failed(w, r, next, err)
		return
	}
	if st.Capacity > 0 {
		l.fields.set(w.Header(), st)
	}
	if st.Accepted {
		next.ServeHTTP(w, r)
		return
	}
	if jitter := l.options.Jitter; jitter > 0 && st.RetryAfter < brim.Never-jitter {
		st.RetryAfter += rand.N(jitter)
	}
	st.Capacity = l.limit.Capacity
	l.fields.refuse(w, st, n)
}

// costOf returns the cost of a request in units: 1 if cost is nil.
func costOf(r *http.Request, cost func(*http.Request) float64) float64 {
	if cost == nil {
		return 1
	}
	return cost(r)
}

// try puts n units into the bucket of the request, within Timeout.
func (l *limited) try(r *http.Request, n float64) (brim.State, error) {
	ctx := r.Context()
	if l.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.options.Timeout)
		defer cancel()
	}
	return l.lim.TryFillup(ctx, l.limit.For(l.key(r)), n)
}

// failed answers a request that the limit could not decide.
func (l *limited) failed(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if l.options.OnError != nil {
		l.options.OnError(r, err)
	}
	switch {
	case errors.Is(err, brim.ErrInvalidAmount), errors.Is(err, brim.ErrInvalidKey), errors.Is(err, brim.ErrInvalidLimit):
		// The application has made the error. A client that can provoke it must not get past the
		// limit by FailOpen.
		writeProblem(w, problem{Title: "Internal Server Error", Status: http.StatusInternalServerError})
	case l.open:
		next.ServeHTTP(w, r)
	default:
		writeProblem(w, problem{
			Title: "Service Unavailable", Status: http.StatusServiceUnavailable,
			Detail: "Limits cannot be checked at the moment.",
		})
	}
}

// ContentLength returns a Cost of one unit per byte of the request's body, from its field
// Content-Length (RFC 9110, section 8.6). A body of unknown length costs the given number of
// units.
//
// ContentLength does not read the body, and it does not limit the bytes that a handler reads.
func ContentLength(unknown float64) func(*http.Request) float64 {
	return func(r *http.Request) float64 {
		if r.ContentLength < 0 {
			return unknown
		}
		return float64(r.ContentLength)
	}
}
