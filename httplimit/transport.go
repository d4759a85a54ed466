package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/internal/sleep"
)

const (
	// DefaultRetries is the number of retries if TransportOptions.Retries is 0. Their random times
	// add up to half a minute at most. Of 100 clients of a limit of 10 a second that begin at once,
	// 5 retries serve all, and 2 serve 57.
	DefaultRetries = 5
	// DefaultMaxRetryAfter is the longest wait for a retry if TransportOptions.MaxRetryAfter is
	// 0.
	DefaultMaxRetryAfter = time.Minute
)

// TransportOptions adjust a [Transport]. The zero value selects the defaults.
type TransportOptions struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Cost returns the cost of a request in units of the limit; nil means 1. It must be safe for
	// concurrent use.
	Cost func(r *http.Request) float64
	// Retries is the number of times that a request is sent again after an answer with Retry-After;
	// 0 means [DefaultRetries], and a negative number means never.
	Retries int
	// MaxRetryAfter is the longest Retry-After that the Transport waits for; 0 means
	// [DefaultMaxRetryAfter]. An answer with a longer Retry-After is returned to the caller. The
	// random time that the Transport adds is at most as long again. The time counts from the header
	// of the answer: the Transport reads up to 64 KiB of the body meanwhile, for at most a second.
	MaxRetryAfter time.Duration
}

// Transport is an [http.RoundTripper] that keeps to the limit of a server. Before it sends a
// request, it waits for the request's turn in a bucket, so all processes that share the bucket
// keep to the limit together. It is safe for concurrent use.
//
// If the server refuses a request and sends Retry-After, the Transport waits for that time and a
// random one, and sends the request again. The random time is at most a second before the first
// retry, and its bound doubles with each retry, so that clients that were refused together come
// back apart. Retry-After may be a date, or a number of seconds with decimals.
//
// Status 429 refuses a request before the server acts on it, and so does 529, by which providers of
// language models say that they are overloaded. Status 503 does not always: Varnish sends it with
// Retry-After if it lost the server behind it, which may have acted on the request. So after a 503
// the Transport sends again only requests with an idempotent method (RFC 9110, section 9.2.2), and
// those with an Idempotency-Key in their header.
//
// If the turn would come after the Shaper's MaxWait or the context's deadline, the request fails
// at once with a [*brim.OverLimitError] and is not sent.
//
// The answer is returned to the caller like any other if Retry-After would end after the context's
// deadline, or if the request has a body and no GetBody. [http.NewRequest] sets GetBody for most
// bodies.
type Transport struct {
	shaper *brim.Shaper
	bucket brim.Bucket
	base   http.RoundTripper
	cost   func(r *http.Request) float64
	retry  caller.Retry
}

// NewTransport returns a Transport whose requests take turns in b. The bucket should leak a
// little more slowly than the server allows. o may be nil. NewTransport fails if s is nil, if b
// is invalid or does not leak, or if MaxRetryAfter is negative.
func NewTransport(s *brim.Shaper, b brim.Bucket, o *TransportOptions) (*Transport, error) {
	if o == nil {
		o = &TransportOptions{}
	}
	if err := b.Validate(); err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, errors.New("httplimit: the Shaper is nil; make one with brim.NewShaper")
	case b.LeakRate == 0:
		return nil, fmt.Errorf("httplimit: %w: leak rate is 0, so no second turn would come; use a positive one",
			brim.ErrInvalidLimit)
	case o.MaxRetryAfter < 0:
		return nil, fmt.Errorf("httplimit: MaxRetryAfter is %v; it must be positive, or 0 for %v",
			o.MaxRetryAfter, DefaultMaxRetryAfter)
	}
	t := &Transport{
		shaper: s, bucket: b, base: o.Base, cost: o.Cost,
		retry: caller.Retry{Most: cmp.Or(o.Retries, DefaultRetries), Longest: cmp.Or(o.MaxRetryAfter, DefaultMaxRetryAfter)},
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	return t, nil
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	n := costOf(r, t.cost)
	for retry := 0; ; retry++ {
		if _, err := t.shaper.Wait(r.Context(), t.bucket, n); err != nil {
			closeBody(r)
			return nil, err
		}
		resp, err := t.base.RoundTrip(r)
		if err != nil || !refused(r, resp.StatusCode) {
			return resp, err
		}
		after, ok := caller.RetryAfter(resp.Header)
		if !ok {
			return resp, nil
		}
		wait, ok := t.retry.Wait(r.Context(), retry, after)
		if !ok {
			return resp, nil
		}
		again, ok := repeat(r)
		if !ok {
			return resp, nil
		}
		wait -= t.discard(resp.Body)
		r = again
		if err := sleep.For(r.Context(), wait); err != nil {
			closeBody(r)
			return nil, err
		}
	}
}

// refused reports whether a status means that the server has refused r because of its load, so that
// r may be sent again.
func refused(r *http.Request, status int) bool {
	const overloaded = 529 // of no RFC
	switch status {
	case http.StatusTooManyRequests, overloaded:
		return true
	case http.StatusServiceUnavailable:
		return idempotent(r)
	}
	return false
}

// idempotent reports whether the server acts on r once, however often r is sent. The field is that
// of draft-ietf-httpapi-idempotency-key-header.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// discard reads the body of a refusal and closes it, and returns the time that it took. Base reuses
// a connection only if the answer was read. The body is short, but a server can send it slowly, or
// never end it.
func (t *Transport) discard(body io.ReadCloser) time.Duration {
	began := time.Now()
	late := time.AfterFunc(min(time.Second, t.retry.Longest), func() { _ = body.Close() })
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	if late.Stop() {
		_ = body.Close()
	}
	return time.Since(began)
}

// closeBody closes the body of a request that is not sent, as [http.RoundTripper] demands.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// repeat returns a copy of the request with a fresh body. It returns false if the body cannot be
// read a second time. The copy shares the header with r: a RoundTripper does not modify it.
func repeat(r *http.Request) (*http.Request, bool) {
	again := *r
	if r.Body == nil || r.Body == http.NoBody {
		return &again, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	again.Body = body
	return &again, err == nil
}
