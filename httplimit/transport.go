package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/brimgo/brim"
)

const (
	// DefaultRetries is the number of retries if TransportOptions.Retries is 0.
	DefaultRetries = 2
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
	// Retries is the number of times that a request is sent again after a 429 with Retry-After; 0
	// means [DefaultRetries], and a negative number means never.
	Retries int
	// MaxRetryAfter is the longest Retry-After that the Transport waits for; 0 means
	// [DefaultMaxRetryAfter]. A 429 with a longer Retry-After is returned to the caller. The time
	// counts from the header of the answer: the Transport reads up to 64 KiB of the body meanwhile, for
	// at most a second.
	MaxRetryAfter time.Duration
}

// Transport is an [http.RoundTripper] that keeps to the limit of a server. Before it sends a
// request, it waits for the request's turn in a bucket, so all processes that share the bucket
// keep to the limit together. If the server answers with status 429 and Retry-After, the
// Transport waits for that time and sends the request again. It is safe for concurrent use.
//
// If the turn would come after the Shaper's MaxWait or the context's deadline, the request fails
// at once with a [*brim.OverLimitError] and is not sent.
//
// A 429 is returned to the caller like any other answer if the wait would end after the context's
// deadline, or if the request has a body and no GetBody. [http.NewRequest] sets GetBody for most
// bodies.
type Transport struct {
	shaper  *brim.Shaper
	bucket  brim.Bucket
	options TransportOptions
}

// NewTransport returns a Transport whose requests take turns in b. The bucket should leak a
// little more slowly than the server allows. o may be nil. NewTransport fails if s is nil, if b
// is invalid or does not leak, or if MaxRetryAfter is negative.
func NewTransport(s *brim.Shaper, b brim.Bucket, o *TransportOptions) (*Transport, error) {
	t := &Transport{shaper: s, bucket: b}
	if o != nil {
		t.options = *o
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
	case t.options.MaxRetryAfter < 0:
		return nil, fmt.Errorf("httplimit: MaxRetryAfter is %v; it must be positive, or 0 for %v",
			t.options.MaxRetryAfter, DefaultMaxRetryAfter)
	}
	if t.options.Base == nil {
		t.options.Base = http.DefaultTransport
	}
	if t.options.Retries == 0 {
		t.options.Retries = DefaultRetries
	}
	if t.options.MaxRetryAfter == 0 {
		t.options.MaxRetryAfter = DefaultMaxRetryAfter
	}
	return t, nil
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	n := costOf(r, t.options.Cost)
	for retry := 0; ; retry++ {
		if _, err := t.shaper.Wait(r.Context(), t.bucket, n); err != nil {
			closeBody(r)
			return nil, err
		}
		resp, err := t.options.Base.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || retry >= t.options.Retries {
			return resp, err
		}
		wait, ok := retryAfter(resp.Header)
		if !ok || !t.worthwhile(r, wait) {
			return resp, nil
		}
		again, ok := repeat(r)
		if !ok {
			return resp, nil
		}
		wait -= t.discard(resp.Body)
		r = again
		if err := sleep(r, wait); err != nil {
			closeBody(r)
			return nil, err
		}
	}
}

// discard reads the body of a 429 and closes it, and returns the time that it took. Base reuses a
// connection only if the answer was read. The body is short, but a server can send it slowly, or
// never end it.
func (t *Transport) discard(body io.ReadCloser) time.Duration {
	began := time.Now()
	late := time.AfterFunc(min(time.Second, t.options.MaxRetryAfter), func() { _ = body.Close() })
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

// worthwhile reports whether the Transport should wait that long: within MaxRetryAfter and the
// context's deadline.
func (t *Transport) worthwhile(r *http.Request, wait time.Duration) bool {
	deadline, ok := r.Context().Deadline()
	return wait <= t.options.MaxRetryAfter && (!ok || wait < time.Until(deadline))
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

// sleep waits for d or until the request's context ends.
func sleep(r *http.Request, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// retryAfter parses Retry-After: a number of seconds or a date (RFC 9110, section 10.2.3). A date
// is compared with the Date of the answer, so that the server's clock may differ from this
// machine's.
func retryAfter(h http.Header) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if s, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(s) * time.Second, true
	}
	then, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, then.Sub(now)), true
}
