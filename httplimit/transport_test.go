package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// base is a server that gives its answers in order and then answers 200.
type base struct {
	t       *testing.T
	began   time.Time
	answers []http.Header // the headers of its 429s
	fail    error
	at      []time.Duration // the times of the requests, since began
	bodies  []string        // of the requests
	read    int             // answers whose body was closed
}

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	b.at = append(b.at, time.Since(b.began))
	body := ""
	if r.Body != nil {
		p, err := io.ReadAll(r.Body)
		if err != nil {
			b.t.Error(err)
		}
		r.Body.Close()
		body = string(p)
	}
	b.bodies = append(b.bodies, body)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: http.NoBody}
	if b.fail != nil {
		return nil, b.fail
	}
	if len(b.answers) > 0 {
		resp.StatusCode, resp.Header = http.StatusTooManyRequests, b.answers[0]
		resp.Body = &closing{Reader: strings.NewReader("no"), closed: func() { b.read++ }}
		b.answers = b.answers[1:]
	}
	return resp, nil
}

type closing struct {
	io.Reader
	closed func()
}

func (c *closing) Close() error { c.closed(); return nil }

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestTransport(t *testing.T) {
	const s = time.Second
	date := func(after time.Duration) string {
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of synctest's clock
		return start.Add(after).Format(http.TimeFormat)
	}
	again := func(after string) http.Header { return header("Retry-After", after) }
	for _, tc := range []struct {
		name, why string
		requests  int // 0 stands for 1
		body      string
		once      bool // the request has no GetBody
		maxWait   time.Duration
		deadline  time.Duration // of the context; a negative one cancels it after that time
		options   httplimit.TransportOptions
		answers   []http.Header
		fail      error
		status    int // of the last request
		err       error
		at        []time.Duration // the times of the requests that reach the server
		took      time.Duration
	}{
		{
			name: "turns", why: "the first request is sent at once, and one each second after it",
			requests: 3, status: 200, at: []time.Duration{0, s, 2 * s}, took: 2 * s,
		},
		{
			name:     "cost",
			why:      "a request of 3 units takes 3 turns",
			requests: 2, status: 200, at: []time.Duration{0, 3 * s}, took: 3 * s,
			options: httplimit.TransportOptions{Cost: func(*http.Request) float64 { return 3 }},
		},
		{
			name: "larger than the bucket", why: "a request that is not sent has its body closed, as http.RoundTripper demands",
			body: "hello", options: httplimit.TransportOptions{Cost: func(*http.Request) float64 { return 11 }},
			err: brim.ErrOverLimit,
		},
		{
			name: "turn too late", why: "a request that would wait too long is not sent",
			requests: 2, maxWait: s / 2, err: brim.ErrOverLimit, at: []time.Duration{0},
		},
		{
			name: "429 with seconds",
			why:  "the Transport waits for Retry-After, and then for a turn", body: "hello",
			answers: []http.Header{again("5")}, status: 200, at: []time.Duration{0, 5 * s},
			took: 5 * s,
		},
		{
			name: "429 within a turn", why: "a retry takes a turn like any other request",
			answers: []http.Header{again("0")}, status: 200, at: []time.Duration{0, s}, took: s,
		},
		{
			name: "429 with a date", why: "RFC 9110 allows a date, too",
			answers: []http.Header{again(date(7 * s))}, status: 200, at: []time.Duration{0, 7 * s},
			took: 7 * s,
		},
		{
			name:    "429 with a date on another clock",
			why:     "the wait counts from the Date of the answer",
			answers: []http.Header{header("Retry-After", date(time.Hour+7*s), "Date", date(time.Hour))},
			status:  200, at: []time.Duration{0, 7 * s}, took: 7 * s,
		},
		{
			name: "429 with a past date", why: "a past date means no wait",
			answers: []http.Header{again(date(-time.Hour))}, status: 200, at: []time.Duration{0, s},
			took: s,
		},
		{
			name: "429 without Retry-After", why: "the Transport does not know how long to wait",
			answers: []http.Header{header()}, status: 429, at: []time.Duration{0},
		},
		{
			name: "429 with a malformed Retry-After", why: "a malformed field counts as absent",
			answers: []http.Header{again("soon")}, status: 429, at: []time.Duration{0},
		},
		{
			name: "429 with a negative Retry-After", why: "a malformed field counts as absent",
			answers: []http.Header{again("-1")}, status: 429, at: []time.Duration{0},
		},
		{
			name: "429 again and again", why: "after the last retry, the caller gets the 429",
			answers: []http.Header{again("2"), again("2"), again("2")}, status: 429,
			at: []time.Duration{0, 2 * s, 4 * s}, took: 4 * s,
		},
		{
			name: "no retries", why: "a negative Retries forbids them",
			options: httplimit.TransportOptions{Retries: -1}, answers: []http.Header{again("2")},
			status: 429, at: []time.Duration{0},
		},
		{
			name: "long Retry-After", why: "it exceeds the default MaxRetryAfter",
			answers: []http.Header{again("3600")}, status: 429, at: []time.Duration{0},
		},
		{
			name: "long Retry-After allowed", why: "MaxRetryAfter allows it",
			options: httplimit.TransportOptions{MaxRetryAfter: time.Hour},
			answers: []http.Header{again("3600")}, status: 200, at: []time.Duration{0, 3600 * s},
			took: 3600 * s,
		},
		{
			name: "after the deadline", why: "the retry could not be sent before the deadline",
			deadline: 4 * s, answers: []http.Header{again("5")}, status: 429,
			at: []time.Duration{0},
		},
		{
			name: "no GetBody", why: "the body cannot be sent a second time", body: "hello",
			once: true, answers: []http.Header{again("5")}, status: 429, at: []time.Duration{0},
		},
		{
			name: "the connection fails", why: "the caller gets the error of Base",
			fail: io.ErrUnexpectedEOF, err: io.ErrUnexpectedEOF, at: []time.Duration{0},
		},
		{
			name: "cancelled while waiting", why: "the end of the context ends the wait",
			deadline: -3 * s, answers: []http.Header{again("5")}, err: context.Canceled,
			at: []time.Duration{0}, took: 3 * s,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New(nil)
				sh, err := brim.NewShaper(brim.New(st, nil), &brim.ShaperOptions{MaxWait: tc.maxWait})
				if err != nil {
					t.Fatal(err)
				}
				server := &base{t: t, began: time.Now(), answers: tc.answers, fail: tc.fail}
				tc.options.Base = server
				tr, err := httplimit.NewTransport(sh, tens.For("api"), &tc.options)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case tc.deadline > 0:
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				case tc.deadline < 0:
					time.AfterFunc(-tc.deadline, cancel)
				}
				var resp *http.Response
				bodies := 0
				for range max(1, tc.requests) {
					body := strings.NewReader(tc.body)
					r, e := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.example/", body)
					if e != nil {
						t.Fatal(e)
					}
					if tc.body != "" {
						r.Body = &closing{Reader: strings.NewReader(tc.body), closed: func() { bodies++ }}
					}
					if tc.once {
						r.GetBody = nil
					}
					if resp, err = tr.RoundTrip(r); err == nil {
						resp.Body.Close()
					}
				}
				switch {
				case tc.err != nil:
					if !errors.Is(err, tc.err) {
						t.Errorf("%v; want %v\nwhy: %s", err, tc.err, tc.why)
					}
				case err != nil || resp.StatusCode != tc.status:
					t.Errorf("%+v, %v; want status %d\nwhy: %s", resp, err, tc.status, tc.why)
				}
				if took := time.Since(server.began); took != tc.took || len(server.at) != len(tc.at) {
					t.Fatalf("requests at %v, took %v; want %v, %v\nwhy: %s", server.at, took, tc.at, tc.took, tc.why)
				}
				for i, at := range server.at {
					if at != tc.at[i] || server.bodies[i] != tc.body {
						t.Errorf("requests at %v with %q; want at %v with %q\nwhy: %s",
							server.at, server.bodies, tc.at, tc.body, tc.why)
					}
				}
				if want := len(tc.answers) - len(server.answers); server.read != want {
					t.Errorf("%d bodies of answers were closed; want %d", server.read, want)
				}
				if tc.body != "" && bodies != 1 {
					t.Errorf("the body of the request was closed %d times; want once", bodies)
				}
			})
		})
	}
}

// endless is a body that ends only when it is closed.
type endless struct {
	closed chan struct{}
	once   sync.Once
}

func (s *endless) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *endless) Close() error             { s.once.Do(func() { close(s.closed) }); return nil }

// TestEndlessRefusal: a server that never ends the body of a 429 holds nobody up for more than a
// second, and the time counts towards Retry-After.
func TestEndlessRefusal(t *testing.T) {
	for _, tc := range []struct {
		after string
		most  time.Duration // MaxRetryAfter
		took  time.Duration
	}{
		{"3", 0, 3 * time.Second},
		{"0", 0, time.Second},
		{"0", 200 * time.Millisecond, time.Second}, // of the turn
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			base := roundTrip(func(*http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header("Retry-After", tc.after), Body: &endless{closed: make(chan struct{})}}, nil
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})
			turns, err := brim.NewShaper(onRealClock(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			transport, err := httplimit.NewTransport(turns, tens.For("api"), &httplimit.TransportOptions{Base: base, MaxRetryAfter: tc.most})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if took := time.Since(began); resp.StatusCode != http.StatusOK || took != tc.took {
				t.Errorf("Retry-After %s: status %d after %v; want 200 after %v", tc.after, resp.StatusCode, took, tc.took)
			}
		})
	}
}

func TestNewTransportInvalid(t *testing.T) {
	lim, _ := inMemory(t)
	sh, err := brim.NewShaper(lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httplimit.NewTransport(nil, tens.For("k"), nil); err == nil {
		t.Error("without a Shaper: no error")
	}
	noLeak := brim.Limit{Capacity: 1}.For("k")
	if _, err := httplimit.NewTransport(sh, noLeak, nil); !errors.Is(err, brim.ErrInvalidLimit) {
		t.Errorf("without a leak: %v; want ErrInvalidLimit", err)
	}
	if _, err := httplimit.NewTransport(sh, tens.For(""), nil); !errors.Is(err, brim.ErrInvalidKey) {
		t.Errorf("without a key: %v; want ErrInvalidKey", err)
	}
	if _, err := httplimit.NewTransport(sh, tens.For("k"), &httplimit.TransportOptions{MaxRetryAfter: -1}); err == nil {
		t.Error("a negative MaxRetryAfter: no error")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
