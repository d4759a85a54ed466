// Package httplimit puts a limit in front of an HTTP handler, and behind an HTTP client.
//
//	limited, err := httplimit.New(lim, brim.Over(100, time.Minute), httplimit.FailClosed, nil)
//	...
//	http.ListenAndServe(addr, limited(mux))
//
// Each client has a bucket, by its address if nothing else is said. A request that fits goes on to the handler; one that does
// not is answered with 429 and a Retry-After in whole seconds, and one that costs more than the bucket holds with 413 and
// none, because no wait would help. [Transport] is the other side: a client that waits for its turn before it asks.
//
// A full bucket that then leaks lets about twice its capacity through in the time it takes to drain; see package brim.
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

// Failure says what becomes of a request when the store fails, so that the limit has said nothing. There is no default: to let
// everything through, or nothing, is the application's choice.
type Failure uint8

const (
	// FailClosed answers 503: the limit protects something that must not be asked too often.
	FailClosed Failure = iota + 1
	// FailOpen lets the request through: to serve it matters more than the limit.
	FailOpen
)

// Fields are the header fields that tell a client where it stands.
type Fields uint8

const (
	// NoFields sends none but Retry-After, with what is refused.
	NoFields Fields = iota
	// DraftFields sends RateLimit-Policy and RateLimit as draft-ietf-httpapi-ratelimit-headers-10 has them; revision 11 did not
	// change their form. The problem type of refusals is that draft's, too.
	DraftFields
	// XRateLimitFields sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which no document defines. Reset is in
	// seconds from now, until the bucket is empty.
	XRateLimitFields
)

// Options adjust the handlers that [New] makes. The zero value is the default.
type Options struct {
	// Key names the bucket of a request: see [ByHeader]. A request for which it returns "", and every one if Key is nil, has the
	// bucket of its client's address: an IPv4 address, or the /64 of an IPv6 one, since a client has all of that. A key that a
	// store could not keep, because it is too long or not UTF-8, is hashed.
	Key func(r *http.Request) string
	// TrustedProxies are the networks of the application's own proxies. If a request comes from one of them, the client's
	// address is the last one in X-Forwarded-For that is not of these networks; otherwise that field is ignored, since
	// anybody can send one.
	TrustedProxies []netip.Prefix
	// Forwarded reads the addresses from the field Forwarded (RFC 7239) instead of X-Forwarded-For. Choose the one that the
	// proxies write: the other is the client's.
	Forwarded bool

	// Cost is what a request costs, in units of the limit; nil means 1. See [ContentLength]; another function may count the
	// items of a body that was read before and put into the request's context. A cost that is no valid amount is the
	// application's error: such a request is answered with 500, and OnError is told.
	Cost func(r *http.Request) float64
	// Skip reports whether a request is not limited at all, as a health check may be; nil means none is.
	Skip func(r *http.Request) bool

	// Fields says what to tell clients beside Retry-After.
	Fields Fields
	// Policy is the name of the limit in DraftFields; "" means "default".
	Policy string
	// Unit is the unit of quota in DraftFields, "content-bytes" for instance; "" means requests.
	Unit string
	// Jitter is up to how much is added to Retry-After, at random, so that those who were refused together do not come back
	// together.
	Jitter time.Duration

	// Timeout is how long the store may take before it counts as failed; 0 means as long as the client waits.
	Timeout time.Duration
	// OnError is told of a store that failed, and of a cost that makes no sense. It is called by the request's goroutine before
	// the answer; nil is silence. The error holds no key.
	OnError func(r *http.Request, err error)
}

// New returns what puts the limit in front of a handler. It may wrap any number of handlers, which then share the buckets. o
// may be nil.
//
// It fails where the limit, onFailure or an option makes no sense. Handlers may be used by any number of goroutines at once.
func New(lim *brim.Limiter, limit brim.Limit, onFailure Failure, o *Options) (func(http.Handler) http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	l := &limited{lim: lim, limit: limit, open: onFailure == FailOpen, options: *o}
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	if onFailure != FailClosed && onFailure != FailOpen {
		return nil, errors.New("httplimit: it is not said what to do when the store fails; choose FailClosed or FailOpen")
	}
	if o.Jitter < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("httplimit: Jitter is %v and Timeout %v; neither may be negative", o.Jitter, o.Timeout)
	}
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
	n := 1.0
	if l.options.Cost != nil {
		n = l.options.Cost(r)
	}
	st, err := l.try(r, n)
	if err != nil && errors.Is(err, brim.ErrInvalidAmount) && n > l.limit.Capacity {
		err = nil // more than can be counted is more than fits: a client may say any Content-Length
	}
	if err != nil {
		l.failed(w, r, next, err)
		return
	}
	if st.Capacity > 0 {
		l.fields.set(w.Header(), st)
	}
	switch {
	case st.Accepted:
		next.ServeHTTP(w, r)
	case n > l.limit.Capacity:
		l.fields.tooLarge(w, n, l.limit.Capacity)
	default:
		wait := st.RetryAfter
		if jitter := l.options.Jitter; jitter > 0 && wait < brim.Never-jitter {
			wait += rand.N(jitter)
		}
		l.fields.tooMany(w, wait)
	}
}

// try asks the limit.
func (l *limited) try(r *http.Request, n float64) (brim.State, error) {
	ctx := r.Context()
	if l.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.options.Timeout)
		defer cancel()
	}
	return l.lim.TryFillup(ctx, l.limit.For(l.key(r)), n)
}

// failed answers a request that the limit has said nothing about.
func (l *limited) failed(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if l.options.OnError != nil {
		l.options.OnError(r, err)
	}
	switch {
	case errors.Is(err, brim.ErrInvalidAmount), errors.Is(err, brim.ErrInvalidKey), errors.Is(err, brim.ErrInvalidLimit):
		// Not the store's failure: who can bring this about must not get past the limit with it.
		problem(w, details{Title: "Internal Server Error", Status: http.StatusInternalServerError})
	case l.open:
		next.ServeHTTP(w, r)
	default:
		problem(w, details{
			Title: "Service Unavailable", Status: http.StatusServiceUnavailable,
			Detail: "Limits cannot be checked at the moment.",
		})
	}
}

// ContentLength is a cost in bytes of the request's body, by its field Content-Length; a body whose length is not said
// beforehand costs unknown. The body is not read, so nothing keeps a handler from reading less.
func ContentLength(unknown float64) func(*http.Request) float64 {
	return func(r *http.Request) float64 {
		if r.ContentLength < 0 {
			return unknown
		}
		return float64(r.ContentLength)
	}
}
