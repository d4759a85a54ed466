package httplimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/store"
)

// ask lets h answer a request whose query holds its cost.
func ask(h http.Handler, cost string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?cost="+cost, nil))
	return w
}

func costOf(r *http.Request) float64 {
	n, err := strconv.ParseFloat(r.URL.Query().Get("cost"), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// costing is a policy whose cost is in the query of the request.
func costing(l brim.Limit) httplimit.Policies {
	return always(httplimit.Policy{Name: "default", Limit: l, Cost: costOf})
}

// problemOf parses the body of a refusal.
func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
},
) {
	t.Helper()
	if ct := w.Result().Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type %q; want application/problem+json", ct)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != w.Code || p.Title == "" {
		t.Errorf("body %+v; want status %d and a title", p, w.Code)
	}
	return p
}

func TestAnswers(t *testing.T) {
	never := brim.Limit{Capacity: 10}
	for _, tc := range []struct {
		name, why string
		limit     brim.Limit
		before    float64
		cost      string
		status    int
		after     string // Retry-After
	}{
		{name: "it fits", limit: tens, cost: "10", status: 200},
		{name: "a whole second", limit: tens, before: 10, cost: "1", status: 429, after: "1"},
		{
			name: "rounded up", why: "a client that comes back earlier is refused again",
			limit: tens, before: 9.75, cost: "2.5", status: 429, after: "3",
		},
		{
			name: "under a second", why: "0 would invite a client to try again at once",
			limit: tens, before: 9.5, cost: "0.75", status: 429, after: "1",
		},
		{
			name: "larger than the capacity",
			why:  "no wait helps, and a client would obey any Retry-After for ever", limit: tens,
			cost: "11", status: 413,
		},
		{
			name: "larger than can be counted",
			why:  "any client can send such a Content-Length", limit: tens, cost: "1e300",
			status: 413,
		},
		{
			name: "infinite", why: "an infinite cost is larger than the capacity", limit: tens,
			cost: "Inf", status: 413,
		},
		{
			name:  "full for good",
			why:   "it fits an empty bucket, so it is not too large, but no wait helps",
			limit: never, before: 10, cost: "1", status: 429,
		},
		{name: "nothing", why: "a cost of 0 always fits", limit: tens, before: 10, cost: "0", status: 200},
		{name: "negative", why: "the cost is the application's error", limit: tens, cost: "-1", status: 500},
		{
			name:  "NaN",
			why:   "the cost is the application's error, and must not pass the limit",
			limit: tens, cost: "x", status: 500,
		},
	} {
		for fields, name := range map[httplimit.Fields]string{
			httplimit.NoFields: "no fields", httplimit.DraftFields: "draft", httplimit.XRateLimitFields: "X-RateLimit",
			httplimit.XRateLimitDates: "dates",
		} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				lim, _ := inMemory(t)
				var reported error
				h := limited(t, lim, costing(tc.limit), &httplimit.Options{
					OnUnavailable: httplimit.FailOpen, Fields: fields,
					OnError: func(_ *http.Request, err error) { reported = err },
				})
				if tc.before > 0 {
					if w := ask(h, strconv.FormatFloat(tc.before, 'g', -1, 64)); w.Code != 200 {
						t.Fatal(w.Code)
					}
				}
				w := ask(h, tc.cost)
				if got := w.Result().Header.Get("Retry-After"); w.Code != tc.status || got != tc.after {
					t.Errorf("status %d, Retry-After %q; want %d, %q\nwhy: %s", w.Code, got, tc.status, tc.after, tc.why)
				}
				if errors.Is(reported, brim.ErrInvalidAmount) != (tc.status == 500) || reported != nil && tc.status != 500 {
					t.Errorf("OnError got %v; want ErrInvalidAmount if the status is 500", reported)
				}
				if tc.status == 200 {
					return
				}
				p := problemOf(t, w)
				draft := tc.status == 429 && fields == httplimit.DraftFields
				violated := len(p.Violated) == 1 && p.Violated[0] == "default"
				if violated != draft || strings.HasSuffix(p.Type, "#quota-exceeded") != draft {
					t.Errorf("body %+v; want the draft's problem type: %v", p, draft)
				}
				if fields == httplimit.NoFields && tc.status != 500 {
					n := costOf(httptest.NewRequest(http.MethodGet, "/?cost="+tc.cost, nil))
					refusedAlike(t, lim, tc.limit.For("default:ip:192.0.2.1"), n, w)
				}
			})
		}
	}
}

// refusedAlike sees that a handler of one's own gives the answer w of the middleware, by Refuse.
func refusedAlike(t *testing.T, lim *brim.Limiter, b brim.Bucket, n float64, w *httptest.ResponseRecorder) {
	t.Helper()
	st, err := lim.AbleToAccept(t.Context(), b, n)
	if err != nil {
		return // an amount that no bucket can count
	}
	own := httptest.NewRecorder()
	httplimit.Refuse(own, st, n)
	if own.Code != w.Code || !reflect.DeepEqual(own.Result().Header, w.Result().Header) || own.Body.String() != w.Body.String() {
		t.Errorf("Refuse answers %d, %v, %s; want %d, %v, %s", own.Code, own.Header(), own.Body, w.Code, w.Header(), w.Body)
	}
}

func TestFields(t *testing.T) {
	for _, tc := range []struct {
		name    string
		limit   brim.Limit
		fields  httplimit.Fields
		policy  httplimit.Policy // whose Limit is limit
		penalty time.Duration
		costs   []string // one request each; the fields of the last answer are checked
		want    map[string]string
	}{
		{
			name: "none", limit: tens, costs: []string{"11"},
			want: map[string]string{"RateLimit": "", "RateLimit-Policy": "", "X-RateLimit-Limit": "", "X-RateLimit-Remaining": ""},
		},
		{
			name: "accepted", limit: brim.Limit{Capacity: 100, LeakRate: 0.5},
			fields: httplimit.DraftFields, costs: []string{"0.5"},
			want: map[string]string{"RateLimit-Policy": `"default";q=100;w=200`, "RateLimit": `"default";r=99;t=1`},
		},
		{
			name: "refused", limit: brim.Limit{Capacity: 10, LeakRate: 0.25},
			fields: httplimit.DraftFields, costs: []string{"9.5", "2"},
			want: map[string]string{"RateLimit-Policy": `"default";q=10;w=40`, "RateLimit": `"default";r=0;t=2`, "Retry-After": "6"},
		},
		{
			name:  "Retry-After is not before t",
			limit: brim.Limit{Capacity: 10, LeakRate: 0.25}, fields: httplimit.DraftFields,
			costs: []string{"10", "0.25"},
			want:  map[string]string{"RateLimit": `"default";r=0;t=1`, "Retry-After": "1"},
		},
		{
			name: "fractions are rounded down", limit: brim.Limit{Capacity: 10.9, LeakRate: 1},
			fields: httplimit.DraftFields, costs: []string{"0"},
			want: map[string]string{"RateLimit-Policy": `"default";q=10;w=11`, "RateLimit": `"default";r=10`},
		},
		{
			name:  "a window of less than a microsecond",
			limit: brim.Limit{Capacity: 10, LeakRate: 1e9}, fields: httplimit.DraftFields,
			costs: []string{"0"},
			want:  map[string]string{"RateLimit-Policy": `"default";q=10;w=1`},
		},
		{
			name: "no leak", limit: brim.Limit{Capacity: 10}, fields: httplimit.DraftFields,
			costs: []string{"4"},
			want:  map[string]string{"RateLimit-Policy": `"default";q=10`, "RateLimit": `"default";r=6`},
		},
		{
			name: "name and unit", limit: tens, fields: httplimit.DraftFields,
			policy: httplimit.Policy{Name: `up"load\s`, Unit: "content-bytes"},
			costs:  []string{"1"},
			want:   map[string]string{"RateLimit-Policy": `"up\"load\\s";q=10;qu="content-bytes";w=10`, "RateLimit": `"up\"load\\s";r=9;t=1`},
		},
		{
			name: "a large limit", limit: brim.Limit{Capacity: 1 << 53, LeakRate: 1e-12},
			fields: httplimit.DraftFields, costs: []string{"2"},
			want: map[string]string{"RateLimit-Policy": `"default";q=999999999999999;w=999999999999999`, "RateLimit": `"default";r=999999999999999;t=1000000000000`},
		},
		{
			name: "blocked", limit: tens, fields: httplimit.DraftFields, penalty: time.Minute,
			costs: []string{"4", "7"},
			want:  map[string]string{"RateLimit": `"default";r=0;t=60`, "Retry-After": "60"},
		},
		{
			name: "X-RateLimit", limit: brim.Limit{Capacity: 10, LeakRate: 0.25},
			fields: httplimit.XRateLimitFields, costs: []string{"9.5", "2"},
			want: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "38", "Retry-After": "6", "RateLimit": ""},
		},
		{
			name: "X-RateLimit with a date", limit: brim.Limit{Capacity: 10, LeakRate: 0.25},
			fields: httplimit.XRateLimitDates, costs: []string{"9.5", "2"},
			want: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1709251228", "Retry-After": "6"},
		},
		{
			name: "X-RateLimit, no leak", limit: brim.Limit{Capacity: 10},
			fields: httplimit.XRateLimitFields, costs: []string{"4"},
			want: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "6", "X-RateLimit-Reset": ""},
		},
		{
			name: "X-RateLimit, blocked", limit: tens, fields: httplimit.XRateLimitFields,
			penalty: time.Minute, costs: []string{"4", "7"},
			want: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lim, _ := inMemory(t)
			p := tc.policy
			p.Limit, p.Cost = tc.limit, costOf
			if p.Name == "" {
				p.Name = "default"
			}
			h := limited(t, lim.WithPenalty(tc.penalty), always(p), &httplimit.Options{Fields: tc.fields})
			var w *httptest.ResponseRecorder
			for _, cost := range tc.costs {
				w = ask(h, cost)
			}
			for name, want := range tc.want {
				if got := w.Result().Header.Get(name); got != want {
					t.Errorf("%s: %s; want %s", name, got, want)
				}
			}
		})
	}
}

func TestJitter(t *testing.T) {
	lim, _ := inMemory(t)
	h := limited(t, lim, httplimit.PerClient("default", tens), &httplimit.Options{Jitter: 10 * time.Second})
	for range 10 {
		ask(h, "")
	}
	seen := map[string]int{}
	for range 300 {
		after := ask(h, "").Result().Header.Get("Retry-After")
		if s, err := strconv.Atoi(after); err != nil || s < 1 || s > 11 {
			t.Fatalf("Retry-After %q; want 1 to 11", after)
		}
		seen[after]++
	}
	if len(seen) < 9 {
		t.Errorf("300 refusals got %d different waits of 11, want 9 at least: %v", len(seen), seen)
	}
}

// broken is a store that fails with err, or does not answer if err is nil.
type broken struct {
	store.Store
	err error
}

func (s broken) Fill(ctx context.Context, _ store.Op) (store.State, error) {
	if s.err != nil {
		return store.State{}, s.err
	}
	<-ctx.Done()
	return store.State{}, ctx.Err()
}

// TestStoreFailure checks that a failing store has the consequence that the application has
// chosen, and that OnError gets the error.
func TestStoreFailure(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		err                     error // nil makes the store hang
		closed, open, unlimited int   // the status of 12 requests under a limit of 10
		cause                   error
	}{
		{"out of reach", brim.ErrUnavailable, 503, 429, 200, brim.ErrUnavailable},
		{"unknown outcome", brim.ErrUnknownOutcome, 503, 429, 200, brim.ErrUnknownOutcome},
		{"hangs", nil, 503, 429, 200, context.DeadlineExceeded},
		{"full", brim.ErrFull, 503, 503, 503, brim.ErrFull},
		{"misconfigured", brim.ErrMisconfigured, 500, 500, 500, brim.ErrMisconfigured},
		{"damaged", brim.ErrCorrupt, 500, 500, 500, brim.ErrCorrupt},
		{"closed", brim.ErrClosed, 500, 500, 500, brim.ErrClosed},
		{"of no class", errOfNoClass, 500, 500, 500, errOfNoClass},
	} {
		for choice, want := range map[httplimit.Failure]int{
			httplimit.FailClosed: tc.closed, httplimit.FailOpen: tc.open, httplimit.FailUnlimited: tc.unlimited,
		} {
			t.Run(fmt.Sprint(tc.name, ", ", choice), func(t *testing.T) {
				var reported error
				var log lockedBuffer
				h := limited(t, brim.New(broken{err: tc.err}, nil), httplimit.PerClient("default", tens), &httplimit.Options{
					OnUnavailable: choice, Timeout: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					OnError: func(_ *http.Request, err error) { reported = err },
				})
				passed := 0
				var last *httptest.ResponseRecorder
				for range 12 {
					if last = ask(h, ""); last.Code == 200 {
						passed++
					}
				}
				limited := want == 429
				if limited && passed != 10 || last.Code != want || limited == errors.Is(reported, tc.cause) {
					t.Errorf("%d passed, then status %d, and OnError got %v; want %d, %v", passed, last.Code, reported, want, tc.cause)
				}
				if n := strings.Count(log.String(), "until somebody mends this"); (n == 1) != (want == 500) || n > 1 {
					t.Errorf("logged %d times in a minute, for status %d: %s", n, want, &log)
				}
				if want == 503 {
					problemOf(t, last)
				}
			})
		}
	}
}

var errOfNoClass = errors.New("of no class")

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNamesOfPolicies makes two middlewares on one Limiter whose policies have one name.
func TestNamesOfPolicies(t *testing.T) {
	login := httplimit.PerClient("login", tens)
	var byFunction httplimit.PolicyFunc = func(*http.Request) ([]httplimit.Policy, error) {
		return []httplimit.Policy{{Name: "login", Limit: tens}}, nil
	}
	for _, tc := range []struct {
		name          string
		first, second httplimit.Policies
		shared        bool
		fails         bool // New of the second
		status        int  // of the second
	}{
		{"known names", login, httplimit.ByHeader("login", "X-User", tens), false, true, 0},
		{"a name among several", httplimit.All(login, httplimit.PerClient("site", tens)), httplimit.All(httplimit.PerClient("all", tens), login), false, true, 0},
		{"it is meant", login, login, true, false, 200},
		{"other names", login, httplimit.PerClient("site", tens), false, false, 200},
		{"a function second", login, byFunction, false, false, 500},
		{"a function first", byFunction, login, false, false, 500},
		{"a function among others", httplimit.All(login, byFunction), byFunction, false, false, 500},
		{"a function, and it is meant", byFunction, byFunction, true, false, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lim, _ := inMemory(t)
			first := limited(t, lim, tc.first, nil)
			var reported error
			wrap, err := httplimit.New(lim, tc.second, &httplimit.Options{
				Shared: tc.shared, OnError: func(_ *http.Request, err error) { reported = err },
			})
			if tc.fails {
				if err == nil || !strings.Contains(err.Error(), `"login"`) {
					t.Errorf("%v; want an error that names the policy", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			second := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for range 2 { // whoever has a request first
				ask(second, "")
				if w := ask(first, ""); w.Code != 200 {
					t.Errorf("the first answers %d, want 200", w.Code)
				}
			}
			if w := ask(second, ""); w.Code != tc.status || (reported != nil) != (tc.status == 500) {
				t.Errorf("the second answers %d, and OnError got %v; want %d", w.Code, reported, tc.status)
			}
			other, _ := inMemory(t)
			if w := ask(limited(t, other, tc.second, nil), ""); w.Code != 200 {
				t.Errorf("on another Limiter it answers %d, want 200", w.Code)
			}
		})
	}
	t.Run("collected", func(t *testing.T) {
		lim, _ := inMemory(t)
		if w := ask(limited(t, lim, login, nil), ""); w.Code != 200 {
			t.Fatal(w.Code)
		}
		for range 100 { // the collector frees it in a cycle or two
			runtime.GC()
			if _, err := httplimit.New(lim, login, nil); err == nil {
				return
			}
		}
		t.Error("a middleware that nobody uses any more keeps its name")
	})
}

func TestSkip(t *testing.T) {
	lim, _ := inMemory(t)
	h := limited(t, lim, httplimit.PerClient("default", brim.Limit{Capacity: 1}), &httplimit.Options{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/health" },
	})
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/health", nil))
		if w.Code != 200 {
			t.Errorf("status %d of a request that bypasses the limit; want 200", w.Code)
		}
	}
	if first, second := ask(h, ""), ask(h, ""); first.Code != 200 || second.Code != 429 {
		t.Errorf("status %d, then %d; want 200, then 429", first.Code, second.Code)
	}
}

func TestContentLength(t *testing.T) {
	cost := httplimit.ContentLength(7)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("12345"))
	if n := cost(r); n != 5 {
		t.Errorf("5 bytes cost %v; want 5", n)
	}
	r.ContentLength = -1
	if n := cost(r); n != 7 {
		t.Errorf("a body of unknown length costs %v; want 7", n)
	}
	if n := cost(httptest.NewRequest(http.MethodGet, "/", nil)); n != 0 {
		t.Errorf("no body costs %v; want 0", n)
	}
}

func TestNewInvalid(t *testing.T) {
	lim, _ := inMemory(t)
	tensOf := httplimit.PerClient("default", tens)
	for _, tc := range []struct {
		name     string
		lim      *brim.Limiter
		policies httplimit.Policies
		options  httplimit.Options
		says     string
	}{
		{"no Limiter", nil, tensOf, httplimit.Options{}, "the Limiter is nil"},
		{"no policies", lim, nil, httplimit.Options{}, "PerClient"},
		{"no such Failure", lim, tensOf, httplimit.Options{OnUnavailable: 3}, "choose FailClosed, FailOpen or FailUnlimited"},
		{"fields", lim, tensOf, httplimit.Options{Fields: 9}, "Fields is 9"},
		{"jitter", lim, tensOf, httplimit.Options{Jitter: -1}, "Jitter is -1ns"},
		{"timeout", lim, tensOf, httplimit.Options{Timeout: -1}, "Timeout is -1ns"},
		{
			"network", lim, tensOf,
			httplimit.Options{Clients: httplimit.Clients{TrustedProxies: []netip.Prefix{{}}}},
			"TrustedProxies is invalid",
		},
		{
			"all of IPv4", lim, tensOf,
			httplimit.Options{Clients: httplimit.Clients{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/80")}}},
			"write the IPv4 network",
		},
		{"no such prefix", lim, tensOf, httplimit.Options{Clients: httplimit.Clients{IPv6Prefix: 129}}, "IPv6Prefix is 129"},
		{"hops", lim, tensOf, httplimit.Options{Clients: httplimit.Clients{TrustedHops: -1}}, "TrustedHops is -1"},
		{
			"hops and networks", lim, tensOf,
			httplimit.Options{Clients: httplimit.Clients{TrustedHops: 1, TrustedProxies: tenNet}},
			"by their number or by their networks",
		},
	} {
		_, err := httplimit.New(tc.lim, tc.policies, &tc.options)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q", tc.name, err, tc.says)
		}
	}
}
