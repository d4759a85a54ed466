package llmlimit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/guard"
	"github.com/brimgo/brim/store"
)

const (
	defaultTTL = 30 * time.Second
	drainFor   = 10 * time.Minute // a caller has left, and the answer does not end
	patience   = 5 * time.Second  // of a caller, with the ledger, or with the rest of an error
	maxError   = 64 << 10         // bytes of a server error that are read for a caller who has not
)

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	d, model := dialectOf(r)
	switch {
	case d == free, d == unknown && t.o.Unknown:
		return t.o.Base.RoundTrip(r)
	case t.budgets == nil || t.models == nil || t.o.Bucket != nil && t.o.Limiter == nil:
		closeBody(r)
		return nil, errors.New("llmlimit: New needs budgets and models, and a Bucket needs a Limiter")
	}
	c := &call{t: t, dialect: d, settled: make(chan struct{}), id: rand.Text()}
	out, f, err := c.prepare(r, model)
	if err == nil && f == nil {
		f, err = c.hold(r.Context())
	}
	switch {
	case err != nil:
		return nil, err
	case f != nil:
		return f.answer(r, d), nil
	}
	return c.send(r.Context(), out)
}

// prepare returns the request to send, or a refusal, and notes the most that the call can cost.
func (c *call) prepare(r *http.Request, model string) (*http.Request, *refusal, error) {
	if c.dialect == unknown {
		closeBody(r)
		return nil, badRequest(fmt.Errorf("%.10s %.80q is no call whose cost is known", r.Method, r.URL.Path)), nil
	}
	body, err := readBody(r)
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > maxBody:
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the request is longer than %d bytes", maxBody)}, nil
	}
	q, err := parse(c.dialect, body)
	if err != nil {
		return nil, badRequest(err), nil
	}
	if c.name = model; model == "" {
		c.name = q.model
	}
	var known bool
	if c.model, known = c.t.models(c.name); !known {
		return nil, badRequest(fmt.Errorf("the model %.80q has no price", c.name)), nil
	}
	if c.bound, err = q.bound(&c.model); err != nil {
		var ours *priceError
		if errors.As(err, &ours) {
			return nil, misconfigured(err), nil
		}
		return nil, badRequest(err), nil
	}
	if (c.dialect == chat || c.dialect == legacy) && q.stream && !q.asksUsage() {
		if body, err = q.withUsage(body); err != nil {
			return nil, nil, err
		}
		c.hide = true
	}
	out := r.Clone(r.Context())
	out.Header.Del("Accept-Encoding")
	out.ContentLength, out.TransferEncoding = int64(len(body)), nil
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = again()
	out.GetBody = nil
	if r.Header["Idempotency-Key"] == nil && r.Header["X-Idempotency-Key"] == nil {
		out.GetBody = again // with such a key, http.Transport sends a request again that may have been billed
	}
	return out, nil, nil
}

func badRequest(err error) *refusal {
	return &refusal{status: http.StatusBadRequest, text: err.Error()}
}

func misconfigured(err error) *refusal {
	return &refusal{status: http.StatusInternalServerError, text: "limits are not set up: " + err.Error()}
}

// away is the refusal of a call about which a store or a ledger could not decide.
func away(err error) *refusal {
	if caller.Away(err) {
		return &refusal{status: http.StatusServiceUnavailable, text: "limits cannot be checked at the moment", after: time.Second}
	}
	return misconfigured(err)
}

// readBody returns up to maxBody+1 bytes of the body of r, and closes it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer closeBody(r)
	return io.ReadAll(io.LimitReader(r.Body, maxBody+1))
}

// closeBody closes the body of a request, as [http.RoundTripper] demands.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// hold takes a unit of the provider's limit and holds the money, or returns a refusal.
func (c *call) hold(ctx context.Context) (*refusal, error) {
	who, _ := ctx.Value(accountsKey{}).(accounts)
	if who.name == "" {
		return &refusal{status: http.StatusForbidden, text: "the call has no account; name one by llmlimit.For"}, nil
	}
	if c.t.o.Bucket != nil {
		c.bucket = c.t.o.Bucket(c.name)
		st, err := c.t.o.Limiter.TryFillup(ctx, c.bucket, 1)
		if left := caller.Left(ctx); left != nil {
			return nil, left
		}
		switch {
		case err != nil:
			return away(err), nil
		case st.RetryAfter == brim.Never && !st.Accepted:
			return &refusal{status: http.StatusBadRequest, text: "the provider's limit never has room for this call"}, nil
		case !st.Accepted:
			return &refusal{
				status: http.StatusTooManyRequests, text: "the provider's limit has no room for this call",
				after: max(st.RetryAfter, time.Millisecond),
			}, nil
		}
	}
	r := spend.Request{
		ID: c.id, Account: who.name, Also: who.also, Amount: c.bound.cost,
		TTL: c.ttl(), OnExpiry: spend.SpendOnExpiry, // the provider bills the call of a process that was killed
	}
	m, d, err := guard.Open(ctx, c.t.budgets, spend.UpToRequest{Request: r})
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		go c.cancel(context.WithoutCancel(ctx), who.name)
		return away(err), nil
	case err != nil:
		return away(err), nil
	case m == nil:
		return declined(&d, c.bound.cost), nil
	}
	c.meter = m
	return nil, nil
}

func (c *call) ttl() time.Duration {
	if c.t.o.TTL > 0 {
		return c.t.o.TTL
	}
	return defaultTTL
}

// cancel ends a hold that may be there, of a call that was not sent.
func (c *call) cancel(ctx context.Context, account string) {
	ctx, stop := context.WithTimeout(ctx, c.ttl())
	defer stop()
	for {
		_, err := c.t.budgets.Cancel(ctx, c.id, account)
		if !caller.OutOfReach(err) || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(c.ttl() / 100):
		case <-ctx.Done():
			return
		}
	}
}

// send makes a call whose money is held.
func (c *call) send(ctx context.Context, out *http.Request) (*http.Response, error) {
	handed := false
	defer func() {
		if !handed { // an error, or a panic of the base
			c.end()
		}
	}()
	c.unsent = true
	if err := ctx.Err(); err != nil { // nothing is sent for a caller who has left
		return nil, err
	}
	var asked, wrote atomic.Bool
	lasting, stop := c.lasting(ctx)
	c.stop = stop
	out = out.WithContext(httptrace.WithClientTrace(lasting, &httptrace.ClientTrace{
		GetConn:      func(string) { asked.Store(true) },
		WroteHeaders: func() { wrote.Store(true) },
	}))
	c.unsent = false
	resp, err := c.t.o.Base.RoundTrip(out)
	if err != nil {
		c.unsent = asked.Load() && !wrote.Load() // a base without traces may have sent it
		return nil, err
	}
	c.status = resp.StatusCode
	c.learn(ctx, resp)
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	kind := resp.Header.Get("Content-Type")
	c.reader = newReader(kind)
	b := &body{ReadCloser: resp.Body, c: c}
	if c.hide && c.reader.stream && resp.StatusCode < 300 {
		b.hide = &hider{from: resp.Body}
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	resp.Body = b
	handed = true
	if !c.t.o.Drain {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave = context.AfterFunc(ctx, c.end)
	}
	return resp, nil
}

// lasting returns the context of the call. With Drain, it goes on for some time when the caller has
// left.
func (c *call) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	if !c.t.o.Drain {
		return context.WithCancel(ctx)
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(drainFor):
			cancel()
		case <-lasting.Done():
		}
	})
	return lasting, func() { stop(); cancel() }
}

// learn blocks the bucket for as long as the provider asks.
func (c *call) learn(ctx context.Context, resp *http.Response) {
	if c.t.o.Bucket == nil || resp.StatusCode != http.StatusTooManyRequests {
		return
	}
	after, ok := retryAfter(resp.Header)
	if !ok || after < time.Microsecond {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	_, c.blocked = c.t.o.Limiter.Block(ctx, c.bucket.Key, after)
}

// retryAfter returns the wait that a provider demands, by the header with milliseconds of OpenAI,
// or by Retry-After.
func retryAfter(h http.Header) (time.Duration, bool) {
	if ms, err := time.ParseDuration(h.Get("Retry-After-Ms") + "ms"); err == nil && ms >= 0 {
		return ms, true
	}
	return caller.RetryAfter(h)
}
