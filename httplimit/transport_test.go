package httplimit_test

import (
	"cmp"
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
	status  int           // of its refusals; 0 means 429
	answers []http.Header // the headers of its refusals
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
		resp.StatusCode, resp.Header = cmp.Or(b.status, http.StatusTooManyRequests), b.answers[0]
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
		method    string      // "" stands for POST
		header    http.Header // of the request
		refusal   int         // the status of the answers; 0 stands for 429
		answers   []http.Header
		fail      error
		status    int // of the last request
		err       error
		at        []time.Duration // the times of the requests that reach the server, without random ones
	}{
		{
			name: "turns", why: "the first request is sent at once, and one each second after it",
			requests: 3, status: 200, at: []time.Duration{0, s, 2 * s},
		},
		{
			name:     "cost",
			why:      "a request of 3 units takes 3 turns",
			requests: 2, status: 200, at: []time.Duration{0, 3 * s},
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
		},
		{
			name: "429 within a turn", why: "a retry takes a turn like any other request",
			answers: []http.Header{again("0")}, status: 200, at: []time.Duration{0, s},
		},
		{
			name: "429 with a date", why: "RFC 9110 allows a date, too",
			answers: []http.Header{again(date(7 * s))}, status: 200, at: []time.Duration{0, 7 * s},
		},
		{
			name:    "429 with a date on another clock",
			why:     "the wait counts from the Date of the answer",
			answers: []http.Header{header("Retry-After", date(time.Hour+7*s), "Date", date(time.Hour))},
			status:  200, at: []time.Duration{0, 7 * s},
		},
		{
			name: "429 with a past date", why: "a past date means no wait",
			answers: []http.Header{again(date(-time.Hour))}, status: 200, at: []time.Duration{0, s},
		},
		{
			name: "429 with decimals", why: "providers of language models send them",
			answers: []http.Header{again("1.25")}, status: 200, at: []time.Duration{0, s + s/4},
		},
		{
			name: "overloaded", why: "the server refuses before it acts on the request", body: "hello", refusal: 529,
			answers: []http.Header{again("5")}, status: 200, at: []time.Duration{0, 5 * s},
		},
		{
			name: "503 to an idempotent method", why: "the request may be sent twice", refusal: 503, method: http.MethodPut, body: "hello",
			answers: []http.Header{again("5")}, status: 200, at: []time.Duration{0, 5 * s},
		},
		{
			name: "503 to a request with a key", why: "the key says that the server acts on it once", refusal: 503, body: "hello",
			header:  header("Idempotency-Key", `"8e03978e"`),
			answers: []http.Header{again("5")}, status: 200, at: []time.Duration{0, 5 * s},
		},
		{
			name: "503 to a POST", why: "a proxy answers so if it lost the server, which may have acted on the request", refusal: 503, body: "hello",
			answers: []http.Header{again("5")}, status: 503, at: []time.Duration{0},
		},
		{
			name: "503 without Retry-After", why: "the Transport does not know how long to wait", refusal: 503, method: http.MethodGet,
			answers: []http.Header{header()}, status: 503, at: []time.Duration{0},
		},
		{
			name: "another status", why: "500 is a fault of the server, and no refusal", refusal: 500, method: http.MethodGet,
			answers: []http.Header{again("5")}, status: 500, at: []time.Duration{0},
		},
		{
			name: "429 without Retry-After", why: "the Transport does not know how long to wait",
			answers: []http.Header{header()}, status: 429, at: []time.Duration{0},
		},
		{
			name: "429 again and again", why: "after the last retry, the caller gets the 429",
			options: httplimit.TransportOptions{Retries: 2},
			answers: []http.Header{again("2"), again("2"), again("2")}, status: 429,
			at: []time.Duration{0, 2 * s, 4 * s},
		},
		{
			name: "as often as by default", why: "five retries are made, further and further apart",
			answers: []http.Header{again("2"), again("2"), again("2"), again("2"), again("2"), again("2")}, status: 429,
			at: []time.Duration{0, 2 * s, 4 * s, 6 * s, 8 * s, 10 * s},
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
			at: []time.Duration{0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New(nil)
				sh, err := brim.NewShaper(brim.New(st, nil), &brim.ShaperOptions{MaxWait: tc.maxWait})
				if err != nil {
					t.Fatal(err)
				}
				server := &base{t: t, began: time.Now(), status: tc.refusal, answers: tc.answers, fail: tc.fail}
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
					r, e := http.NewRequestWithContext(ctx, cmp.Or(tc.method, http.MethodPost), "http://api.example/", body)
					if e != nil {
						t.Fatal(e)
					}
					if tc.header != nil {
						r.Header = tc.header
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
				if len(server.at) != len(tc.at) {
					t.Fatalf("requests at %v; want %v\nwhy: %s", server.at, tc.at, tc.why)
				}
				took := max(0, -tc.deadline)
				for i, at := range server.at {
					random := time.Duration(0)
					if len(tc.answers) > 0 {
						random = s<<i - s // a second before the first retry, and then twice as long each time
					}
					took = max(took, at)
					if at < tc.at[i] || at > tc.at[i]+random || server.bodies[i] != tc.body {
						t.Errorf("requests at %v with %q; want at %v with %q\nwhy: %s",
							server.at, server.bodies, tc.at, tc.body, tc.why)
					}
				}
				if got := time.Since(server.began); got != took {
					t.Errorf("took %v; want %v\nwhy: %s", got, took, tc.why)
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

// TestRetryAfter: each field that is neither a number of seconds nor a date counts as absent.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1.25": 1250 * time.Millisecond, "3.000": 3 * time.Second,
		"": -1, "soon": -1, "-1": -1, "-0.5": -1, "+1": -1, "1e3": -1, "1E-3": -1, "0x10": -1, "1_0": -1, "1h5": -1, "NaN": -1, "Inf": -1,
		".": -1, "1.2.3": -1, "1,5": -1, "5s": -1, "1 2": -1, "99999999999": -1, "9999999999999999999999999": -1,
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &base{t: t, began: time.Now(), answers: []http.Header{header("Retry-After", value)}}
			turns, err := brim.NewShaper(onRealClock(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			transport, err := httplimit.NewTransport(turns, brim.Smooth(1000, time.Minute).For("api"), &httplimit.TransportOptions{Base: server})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			last := server.at[len(server.at)-1]
			if again := len(server.at) == 2; again != (want >= 0) || again && (last < want || last > want+time.Second) {
				t.Errorf("Retry-After %q: requests at %v; want the second after %v, or none for -1", value, server.at, want)
			}
		})
	}
}

// TestCrowd lets 100 clients of a limit of 10 a second begin at once, each with a bucket of its
// own. Retry-After is in whole seconds, so without random times crowds of 90, 80 and 70 come back.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var served, retried []time.Duration // since began
		server := limited(t, onRealClock(t), always(httplimit.Policy{Name: "api", Key: "all", Limit: brim.Over(10, time.Second)}), nil)
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			at := time.Since(began)
			if at > 0 {
				retried = append(retried, at)
			}
			if w.Code == http.StatusOK {
				served = append(served, at)
			}
			return w.Result(), nil
		})
		var all sync.WaitGroup
		for range 100 {
			turns, err := brim.NewShaper(onRealClock(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			transport, err := httplimit.NewTransport(turns, tens.For("api"), &httplimit.TransportOptions{Base: base})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				resp, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		all.Wait()
		crowd, first, soon := 0, 0, 0
		for i, at := range retried { // in order of time
			for at-retried[first] > 100*time.Millisecond {
				first++
			}
			crowd = max(crowd, i-first+1)
		}
		for _, at := range served {
			if at <= 10*time.Second {
				soon++
			}
		}
		t.Logf("%d served, %d of them within 10 s, the last after %v; %d retries, at most %d of them within 100 ms",
			len(served), soon, served[len(served)-1], len(retried), crowd)
		if len(served) < 95 || soon < 75 || crowd > 40 {
			t.Errorf("%d of 100 served, %d within 10 s; %d retries within 100 ms; want about 100, 90 and 20", len(served), soon, crowd)
		}
	})
}

// endless is a body that ends only when it is closed.
type endless struct {
	closed chan struct{}
	once   sync.Once
}

func (s *endless) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *endless) Close() error             { s.once.Do(func() { close(s.closed) }); return nil }

// TestEndlessRefusal: a server that never ends the body of a refusal holds nobody up for more than
// a second, and the time counts towards Retry-After.
func TestEndlessRefusal(t *testing.T) {
	for _, tc := range []struct {
		after  string
		most   time.Duration // MaxRetryAfter
		took   time.Duration
		random time.Duration // the most that the Transport adds
	}{
		{"3", 0, 3 * time.Second, time.Second},
		{"0", 0, time.Second, 0},
		{"0", 200 * time.Millisecond, time.Second, 0}, // of the turn
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
			if took := time.Since(began); resp.StatusCode != http.StatusOK || took < tc.took || took > tc.took+tc.random {
				t.Errorf("Retry-After %s: status %d after %v; want 200 after %v and up to %v more", tc.after, resp.StatusCode, took, tc.took, tc.random)
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
