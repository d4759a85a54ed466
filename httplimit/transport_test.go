package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// base is a server that answers what it was told to, in order, and then 200.
type base struct {
	t       *testing.T
	began   time.Time
	answers []http.Header // of 429s
	fail    error
	at      []time.Duration // when it was asked
	bodies  []string
	read    int // answers whose body was read and closed
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
		resp.StatusCode, resp.Header, resp.Body = 429, b.answers[0], &closing{Reader: strings.NewReader("no"), closed: func() { b.read++ }}
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
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(after).Format(http.TimeFormat) // synctest's clock begins then
	}
	again := func(after string) http.Header { return header("Retry-After", after) }
	for _, tc := range []struct {
		name, why string
		requests  int
		body      string
		once      bool // the body can be read once
		maxWait   time.Duration
		deadline  time.Duration
		options   httplimit.TransportOptions
		answers   []http.Header
		fail      error
		status    int // of the last request
		err       error
		at        []time.Duration
		took      time.Duration
	}{
		{name: "turns", why: "a request each second, the first at once", requests: 3, status: 200, at: []time.Duration{0, s, 2 * s}, took: 2 * s},
		{
			name: "cost", why: "a request of 3 units takes 3 turns", requests: 2, status: 200, at: []time.Duration{0, 3 * s}, took: 3 * s,
			options: httplimit.TransportOptions{Cost: func(*http.Request) float64 { return 3 }},
		},
		{name: "turn too late", why: "what would wait too long is not sent", requests: 2, maxWait: s / 2, err: brim.ErrOverLimit, at: []time.Duration{0}},
		{name: "429 with seconds", why: "it is waited for, and then for a turn", requests: 1, body: "hello", answers: []http.Header{again("5")}, status: 200, at: []time.Duration{0, 5 * s}, took: 5 * s},
		{name: "429 within a turn", why: "a second try takes a turn like any other", requests: 1, answers: []http.Header{again("0")}, status: 200, at: []time.Duration{0, s}, took: s},
		{name: "429 with a date", why: "the other form that HTTP knows (trap 11)", requests: 1, answers: []http.Header{again(date(7 * s))}, status: 200, at: []time.Duration{0, 7 * s}, took: 7 * s},
		{
			name: "429 with a date on another clock", why: "it counts from the answer's own date", requests: 1,
			answers: []http.Header{header("Retry-After", date(time.Hour+7*s), "Date", date(time.Hour))}, status: 200, at: []time.Duration{0, 7 * s}, took: 7 * s,
		},
		{name: "429 with a date gone by", why: "no wait", requests: 1, answers: []http.Header{again(date(-time.Hour))}, status: 200, at: []time.Duration{0, s}, took: s},
		{name: "429 without", why: "the server did not say when: the caller decides", requests: 1, answers: []http.Header{header()}, status: 429, at: []time.Duration{0}},
		{name: "429 with nonsense", why: "malformed is as if absent", requests: 1, answers: []http.Header{again("soon")}, status: 429, at: []time.Duration{0}},
		{name: "429 with a negative", why: "malformed is as if absent", requests: 1, answers: []http.Header{again("-1")}, status: 429, at: []time.Duration{0}},
		{name: "429 again and again", why: "as often as is said, then the answer is the answer", requests: 1, answers: []http.Header{again("2"), again("2"), again("2")}, status: 429, at: []time.Duration{0, 2 * s, 4 * s}, took: 4 * s},
		{name: "no retries", why: "as is said", requests: 1, options: httplimit.TransportOptions{Retries: -1}, answers: []http.Header{again("2")}, status: 429, at: []time.Duration{0}},
		{name: "too long", why: "a caller should not hang for an hour", requests: 1, answers: []http.Header{again("3600")}, status: 429, at: []time.Duration{0}},
		{name: "long, and said so", why: "as is said", requests: 1, options: httplimit.TransportOptions{MaxRetryAfter: time.Hour}, answers: []http.Header{again("3600")}, status: 200, at: []time.Duration{0, 3600 * s}, took: 3600 * s},
		{name: "after the deadline", why: "to wait until it is over would be no use: the answer comes at once", requests: 1, deadline: 4 * s, answers: []http.Header{again("5")}, status: 429, at: []time.Duration{0}},
		{name: "a body that is gone", why: "it cannot be sent again", requests: 1, body: "hello", once: true, answers: []http.Header{again("5")}, status: 429, at: []time.Duration{0}},
		{name: "the connection fails", why: "errors are the base's", requests: 1, fail: io.ErrUnexpectedEOF, err: io.ErrUnexpectedEOF, at: []time.Duration{0}},
		{name: "cancelled while waiting", why: "the context's error, at once", requests: 1, deadline: -3 * s, answers: []http.Header{again("5")}, err: context.Canceled, at: []time.Duration{0}, took: 3 * s},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := memory.New(nil)
				if err != nil {
					t.Fatal(err)
				}
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
				for range tc.requests {
					r, e := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.example/", strings.NewReader(tc.body))
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
						t.Errorf("%v; want %v: %s", err, tc.err, tc.why)
					}
				case err != nil || resp.StatusCode != tc.status:
					t.Errorf("%+v, %v; want status %d: %s", resp, err, tc.status, tc.why)
				}
				if took := time.Since(server.began); took != tc.took || len(server.at) != len(tc.at) {
					t.Fatalf("asked at %v, took %v; want %v, %v: %s", server.at, took, tc.at, tc.took, tc.why)
				}
				for i, at := range server.at {
					if at != tc.at[i] || server.bodies[i] != tc.body {
						t.Errorf("asked at %v with %q; want at %v with %q: %s", server.at, server.bodies, tc.at, tc.body, tc.why)
					}
				}
				if want := len(tc.answers) - len(server.answers); server.read != want {
					t.Errorf("%d answers were closed; want %d", server.read, want)
				}
				if tc.body != "" && bodies != 1 {
					t.Errorf("the caller's body was closed %d times; want once", bodies)
				}
			})
		})
	}
}

// A request that is not sent has its body closed all the same, as a RoundTripper must.
func TestTransportClosesBody(t *testing.T) {
	lim, _ := inMemory(t)
	sh, err := brim.NewShaper(lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := httplimit.NewTransport(sh, tens.For("api"), &httplimit.TransportOptions{Cost: func(*http.Request) float64 { return 11 }})
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.example/", &closing{Reader: strings.NewReader("x"), closed: func() { closed++ }})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(r)
	if resp != nil {
		resp.Body.Close()
	}
	if over := (*brim.OverLimitError)(nil); !errors.As(err, &over) || over.RetryAfter != brim.Never || closed != 1 {
		t.Errorf("%v, body closed %d times; want a refusal for good, and once", err, closed)
	}
}

func TestNewTransportInvalid(t *testing.T) {
	lim, _ := inMemory(t)
	sh, err := brim.NewShaper(lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httplimit.NewTransport(nil, tens.For("k"), nil); err == nil {
		t.Error("without a Shaper")
	}
	if _, err := httplimit.NewTransport(sh, brim.Limit{Capacity: 1}.For("k"), nil); !errors.Is(err, brim.ErrInvalidLimit) {
		t.Errorf("without a leak: %v", err)
	}
	if _, err := httplimit.NewTransport(sh, tens.For(""), nil); !errors.Is(err, brim.ErrInvalidKey) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := httplimit.NewTransport(sh, tens.For("k"), &httplimit.TransportOptions{MaxRetryAfter: -1}); err == nil {
		t.Error("with a negative MaxRetryAfter")
	}
}
