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

// Defaults of [TransportOptions].
const (
	DefaultRetries       = 2
	DefaultMaxRetryAfter = time.Minute
)

// TransportOptions adjust a [Transport]. The zero value is the default.
type TransportOptions struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Cost is what a request costs, in units of the limit; nil means 1.
	Cost func(r *http.Request) float64
	// Retries is how often a request is sent again after a 429 with Retry-After; 0 means [DefaultRetries], and a negative number
	// not at all.
	Retries int
	// MaxRetryAfter is the longest Retry-After that is waited for; the answer to a longer one is returned as it is. 0 means
	// [DefaultMaxRetryAfter].
	MaxRetryAfter time.Duration
}

// Transport is an [http.RoundTripper] that waits for a request's turn in a bucket before it sends it, so that a server's limit
// is kept by all processes that share the bucket, and that sends it again when the server answers 429 and says when. It may be
// used by any number of goroutines at once.
//
// A request whose turn would come too late, by the Shaper's MaxWait or the context's deadline, fails at once with a
// [*brim.OverLimitError] and is not sent. A request with a body is sent again only if it has GetBody, as those of
// [http.NewRequest] mostly have; the wait of its Retry-After must end before the context's deadline. Otherwise the 429 is
// returned like any other answer.
type Transport struct {
	shaper  *brim.Shaper
	bucket  brim.Bucket
	options TransportOptions
}

// NewTransport returns a Transport over a bucket, which should leak a little more slowly than what the server allows. o may be
// nil. It fails where the limit or an option makes no sense.
func NewTransport(s *brim.Shaper, b brim.Bucket, o *TransportOptions) (*Transport, error) {
	t := &Transport{shaper: s, bucket: b}
	if o != nil {
		t.options = *o
	}
	switch {
	case s == nil:
		return nil, errors.New("httplimit: the Shaper is nil; make one with brim.NewShaper")
	case b.LeakRate == 0:
		return nil, fmt.Errorf("httplimit: %w: leak rate is 0: no turn would ever come; use a positive one", brim.ErrInvalidLimit)
	case t.options.MaxRetryAfter < 0:
		return nil, fmt.Errorf("httplimit: MaxRetryAfter is %v; it must be positive, or 0 for %v", t.options.MaxRetryAfter, DefaultMaxRetryAfter)
	}
	if err := b.Validate(); err != nil {
		return nil, err
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
	n := 1.0
	if t.options.Cost != nil {
		n = t.options.Cost(r)
	}
	for retry := 0; ; retry++ {
		st, err := t.shaper.Wait(r.Context(), t.bucket, n)
		if err == nil && !st.Accepted {
			err = &brim.OverLimitError{State: st}
		}
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // a RoundTripper closes it, also where it sends nothing
			}
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
		again, err := repeat(r)
		if err != nil {
			return resp, nil // as it cannot be sent again, the answer is the answer
		}
		// A connection is used again only if the answer was read, and the answer to a refusal is short.
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		_ = resp.Body.Close()
		r = again
		if err := sleep(r, wait); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
}

// worthwhile reports whether there is a point in waiting that long.
func (t *Transport) worthwhile(r *http.Request, wait time.Duration) bool {
	deadline, ok := r.Context().Deadline()
	return wait <= t.options.MaxRetryAfter && (!ok || wait < time.Until(deadline))
}

// repeat returns the request for another time. The first is left as it was: it is the caller's.
func repeat(r *http.Request) (*http.Request, error) {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("httplimit: the body can be read once only")
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err
}

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

// retryAfter reads Retry-After, which is a number of seconds or a date (RFC 9110, 10.2.3). A date is compared with that of the
// answer, so that the two clocks need not agree.
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
