package httplimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestPoliciesShareNoBucket sends ten minutes of mixed traffic of one client: pages, which have two
// policies, and logins, which have another. Each policy admits exactly as many as without the other
// route. If they shared a bucket, the high leak rate of the pages would empty it for the logins.
func TestPoliciesShareNoBucket(t *testing.T) {
	traffic := func(logins, pages bool) (admitted [2]int, levels [3]float64) {
		lim, clock := inMemory(t)
		policies := []httplimit.Policy{
			{Name: "login", Limit: brim.Over(5, time.Minute)},
			{Name: "page", Limit: brim.Over(60, time.Minute)},
			{Name: "hour", Limit: brim.Over(400, time.Hour)},
		}
		login, page := limited(t, lim, always(policies[0]), nil), limited(t, lim, always(policies[1:]...), nil)
		r := rand.New(rand.NewPCG(36, 1))
		for end := clock.Now().Add(10 * time.Minute); clock.Now().Before(end); clock.Advance(time.Duration(r.IntN(800)) * time.Millisecond) {
			guesses := r.IntN(3) == 0
			if guesses && logins && ask(login, "").Code == http.StatusOK {
				admitted[0]++
			}
			if !guesses && pages && ask(page, "").Code == http.StatusOK {
				admitted[1]++
			}
		}
		for i, p := range policies {
			st, err := lim.State(t.Context(), p.Limit.For(p.Name+":ip:192.0.2.1"))
			if err != nil {
				t.Fatal(err)
			}
			levels[i] = st.Level
		}
		return admitted, levels
	}
	both, levels := traffic(true, true)
	logins, alone := traffic(true, false)
	pages, beside := traffic(false, true)
	if both != [2]int{logins[0], pages[1]} || levels != [3]float64{alone[0], beside[1], beside[2]} || logins[0] != 54 || pages[1] != 466 {
		t.Errorf("together %v, at last %v; alone %v and %v, at last %v and %v", both, levels, logins, pages, alone, beside)
	}
}

// TestSeveralPolicies decides requests under three policies at once.
func TestSeveralPolicies(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open opener) {
		lim, _ := open(t)
		burst := httplimit.PerClient("burst", brim.Limit{Capacity: 3, LeakRate: 1})
		plan := always(httplimit.Policy{Name: "plan", Key: "account:7", Limit: brim.Limit{Capacity: 100, LeakRate: 0.1}, Cost: costOf})
		whole := always(httplimit.Policy{Name: "whole", Key: "all", Limit: brim.Limit{Capacity: 1000, LeakRate: 100}})
		h := limited(t, lim, httplimit.All(burst, httplimit.All(plan, whole)), &httplimit.Options{Fields: httplimit.DraftFields})
		policies := func(names ...string) string {
			all := map[string]string{"burst": `"burst";q=3;w=3`, "plan": `"plan";q=100;w=1000`, "whole": `"whole";q=1000;w=10`}
			for i, name := range names {
				names[i] = all[name]
			}
			return strings.Join(names, ", ")
		}
		for i, step := range []struct {
			cost, why string
			status    int
			after     string
			policies  string
			rates     string
			violated  string
		}{
			{
				cost: "30", why: "it fits; two more of its kind fit under burst and plan, so their order stays",
				status: 200, policies: policies("burst", "plan", "whole"),
				rates: `"burst";r=2;t=1, "plan";r=70;t=10, "whole";r=999;t=1`,
			},
			{
				cost: "65", why: "no second one of its kind fits under plan",
				status: 200, policies: policies("plan", "burst", "whole"),
				rates: `"plan";r=5;t=10, "burst";r=1;t=1, "whole";r=998;t=1`,
			},
			{
				cost: "6", why: "plan refuses it, and the other policies do not count it",
				status: 429, after: "10", policies: policies("plan", "burst", "whole"),
				rates: `"plan";r=5;t=10, "burst";r=1;t=1, "whole";r=998;t=1`, violated: "plan",
			},
			{
				cost: "0", why: "a request that costs nothing under a policy is not limited by it",
				status: 200, policies: policies("burst", "whole", "plan"),
				rates: `"burst";r=0;t=1, "whole";r=997;t=1, "plan";r=5;t=10`,
			},
			{
				cost: "7", why: "two policies refuse it, and the longer wait counts",
				status: 429, after: "20", policies: policies("burst", "plan", "whole"),
				rates: `"burst";r=0;t=1, "plan";r=5;t=10, "whole";r=997;t=1`, violated: "burst plan",
			},
			{
				cost: "101", why: "no wait helps under plan",
				status: 413, policies: policies("burst", "plan", "whole"),
				rates: `"burst";r=0;t=1, "plan";r=5;t=10, "whole";r=997;t=1`,
			},
			{cost: "1e300", why: "no bucket can count it", status: 413},
		} {
			w := ask(h, step.cost)
			got := w.Result().Header
			if w.Code != step.status || got.Get("Retry-After") != step.after || got.Get("RateLimit-Policy") != step.policies ||
				got.Get("RateLimit") != step.rates {
				t.Errorf("step %d: %d, Retry-After %s, %s, %s; want %d, %s, %s, %s\nwhy: %s", i, w.Code, got.Get("Retry-After"),
					got.Get("RateLimit-Policy"), got.Get("RateLimit"), step.status, step.after, step.policies, step.rates, step.why)
			}
			if step.status != 200 {
				if p := problemOf(t, w); strings.Join(p.Violated, " ") != step.violated {
					t.Errorf("step %d: violated %v; want %s", i, p.Violated, step.violated)
				}
			}
		}
		for key, level := range map[string]float64{"burst:ip:192.0.2.1": 3, "plan:key:account:7": 95, "whole:key:all": 3} {
			if st, err := lim.StateOf(t.Context(), key); err != nil || st.Level != level {
				t.Errorf("bucket %s: %+v, %v; want level %v", key, st, err, level)
			}
		}
	})
}

// TestXRateLimitOfSeveral sees that the one limit of those fields is that with the least room.
func TestXRateLimitOfSeveral(t *testing.T) {
	lim, _ := inMemory(t)
	h := limited(t, lim, httplimit.All(httplimit.PerClient("wide", tens), httplimit.PerClient("narrow", brim.Limit{Capacity: 5})),
		&httplimit.Options{Fields: httplimit.XRateLimitFields})
	got := ask(h, "").Result().Header
	if got.Get("X-RateLimit-Limit") != "5" || got.Get("X-RateLimit-Remaining") != "4" || got.Get("X-RateLimit-Reset") != "" {
		t.Errorf("%v; want the fields of the narrow limit", got)
	}
}

// TestNobodyAndUnlimited has a tenant who is blocked, and one without a limit. The store is asked
// only about the other policy.
func TestNobodyAndUnlimited(t *testing.T) {
	tenant := func(l brim.Limit) httplimit.Policies {
		return always(httplimit.Policy{Name: "tenant", Key: "42", Limit: l, Cost: costOf})
	}
	site := httplimit.PerClient("site", tens)
	for _, tc := range []struct {
		name      string
		policies  httplimit.Policies
		cost      string
		status    int
		rateLimit string
		level     float64 // of the site's bucket
	}{
		{"unlimited", tenant(brim.Unlimited), "5", 200, "", 0},
		{"unlimited, of any size", tenant(brim.Unlimited), "1e300", 200, "", 0},
		{"unlimited, no number", tenant(brim.Unlimited), "x", 500, "", 0},
		{"unlimited beside a limit", httplimit.All(tenant(brim.Unlimited), site), "5", 200, `"site";r=9;t=1`, 1},
		{"nobody", tenant(brim.Nobody), "1", 429, `"tenant";r=0`, 0},
		{"nobody, of any size", tenant(brim.Nobody), "1e300", 429, `"tenant";r=0`, 0},
		{"nobody beside a limit", httplimit.All(site, tenant(brim.Nobody)), "1", 429, `"tenant";r=0, "site";r=10`, 0},
		{"a capacity of 0", tenant(brim.Limit{LeakRate: 1}), "1", 429, `"tenant";r=0`, 0},
		{"no limit is set", tenant(brim.Limit{}), "1", 500, "", 0},
	} {
		lim, _ := inMemory(t)
		w := ask(limited(t, lim, tc.policies, &httplimit.Options{Fields: httplimit.DraftFields}), tc.cost)
		got := w.Result().Header
		if w.Code != tc.status || got.Get("RateLimit") != tc.rateLimit || got.Get("Retry-After") != "" {
			t.Errorf("%s: %d, %v; want %d, RateLimit %s and no Retry-After", tc.name, w.Code, got, tc.status, tc.rateLimit)
		}
		if tc.status == 429 {
			if p := problemOf(t, w); !slices.Equal(p.Violated, []string{"tenant"}) {
				t.Errorf("%s: violated %v", tc.name, p.Violated)
			}
		}
		if st, err := lim.StateOf(t.Context(), "site:ip:192.0.2.1"); err != nil || st.Level != tc.level {
			t.Errorf("%s: the site's bucket %+v, %v; want level %v", tc.name, st, err, tc.level)
		}
	}
}

// TestNested puts one limit behind another.
func TestNested(t *testing.T) {
	for _, tc := range []struct {
		fields httplimit.Fields
		want   map[string][]string // after the inner limit has refused
	}{
		{httplimit.DraftFields, map[string][]string{
			"Ratelimit-Policy": {`"outer";q=10;w=10`, `"inner";q=1`}, "Ratelimit": {`"outer";r=8;t=1`, `"inner";r=0`},
		}},
		{httplimit.XRateLimitFields, map[string][]string{
			"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"8"}, "X-Ratelimit-Reset": {"2"},
		}},
	} {
		lim, _ := inMemory(t)
		o := &httplimit.Options{Fields: tc.fields}
		outer, err := httplimit.New(lim, httplimit.PerClient("outer", tens), o)
		if err != nil {
			t.Fatal(err)
		}
		h := outer(limited(t, lim, httplimit.PerClient("inner", brim.Limit{Capacity: 1}), o))
		if first, second := ask(h, ""), ask(h, ""); first.Code != 200 || second.Code != 429 {
			t.Errorf("%d, %d; want the inner limit to refuse", first.Code, second.Code)
		} else {
			for name, want := range tc.want {
				if got := second.Result().Header.Values(name); !slices.Equal(got, want) {
					t.Errorf("%s: %q; want %q", name, got, want)
				}
			}
		}
	}
}

// TestNoPolicies admits requests that no policy applies to, without the store.
func TestNoPolicies(t *testing.T) {
	h := limited(t, brim.New(broken{err: brim.ErrUnavailable}, nil), always(), &httplimit.Options{Fields: httplimit.DraftFields})
	if w := ask(h, ""); w.Code != 200 || w.Header().Get("RateLimit") != "" {
		t.Errorf("%d, %v; want 200 without fields", w.Code, w.Header())
	}
}

// TestInvalidPolicies makes requests that the application has made no sense of. FailOpen does not
// let them pass.
func TestInvalidPolicies(t *testing.T) {
	errOwn := errors.New("no such plan")
	var failing httplimit.PolicyFunc = func(*http.Request) ([]httplimit.Policy, error) { return nil, errOwn }
	p := func(name string, l brim.Limit) httplimit.Policy { return httplimit.Policy{Name: name, Limit: l} }
	for _, tc := range []struct {
		name     string
		policies httplimit.Policies
		says     string
	}{
		{"no name", always(p("", tens)), "has no name"},
		{"a colon", always(p("a:b", tens)), "without a colon"},
		{"a long name", always(p(strings.Repeat("n", 65), tens)), "at most 64"},
		{"no ASCII", always(p("é", tens)), "printable ASCII"},
		{"a unit", always(httplimit.Policy{Name: "a", Limit: tens, Unit: "€"}), "printable ASCII"},
		{"no limit", httplimit.PerClient("a", brim.Limit{}), "limit is not set"},
		{"two limits of one bucket", always(p("a", tens), p("a", brim.Limit{Capacity: 1})), "limit"},
		{"an error", failing, errOwn.Error()},
		{"an error of several", httplimit.All(always(p("a", tens)), failing), errOwn.Error()},
	} {
		lim, _ := inMemory(t)
		var reported error
		h := limited(t, lim, tc.policies, &httplimit.Options{
			OnUnavailable: httplimit.FailOpen, OnError: func(_ *http.Request, err error) { reported = err },
		})
		if w := ask(h, ""); w.Code != http.StatusInternalServerError || reported == nil || !strings.Contains(reported.Error(), tc.says) {
			t.Errorf("%s: %d, %v; want 500, and an error that says %q", tc.name, w.Code, reported, tc.says)
		}
	}
	lim := brim.New(broken{err: errors.ErrUnsupported}, nil)
	h := limited(t, lim, httplimit.PerClient("a", tens), &httplimit.Options{OnUnavailable: httplimit.FailOpen})
	if w := ask(h, ""); w.Code != http.StatusInternalServerError {
		t.Errorf("%d; want 500: a store that cannot decide such a request at all would let all of them pass", w.Code)
	}
}

// slow is a store that takes a second for a decision, unless the caller leaves.
type slow struct{ store.Store }

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.Fill(ctx, op)
	case <-ctx.Done():
		return store.State{}, errors.Join(brim.ErrUnknownOutcome, ctx.Err())
	}
}

// TestLeavers has 2,000 requests under a limit of 10 over a slow store. 40 clients wait for the
// answer. The others leave before: they hang up, or a deadline of their own passes. An end of
// theirs is no failure of the store, so FailOpen lets none of them pass. Calls go on behind a
// deadline and may count; beyond 1,024 of them, memory admits the limit once more.
func TestLeavers(t *testing.T) {
	for _, c := range []struct {
		name        string
		deadline    bool
		least, most int64
	}{{"they hang up", false, 10, 10}, {"their deadlines pass", true, 0, 20}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(nil)
				var served, reported atomic.Int64
				wrap, err := httplimit.New(brim.New(slow{s}, nil), httplimit.PerClient("site", brim.Limit{Capacity: 10}), &httplimit.Options{
					OnUnavailable: httplimit.FailOpen, Timeout: time.Minute, OnError: func(*http.Request, error) { reported.Add(1) },
				})
				if err != nil {
					t.Fatal(err)
				}
				h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
				for i := range 2000 {
					go func() {
						ctx, cancel := context.WithCancel(t.Context())
						switch {
						case i%50 == 0: // waits
						case c.deadline:
							ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
						default:
							time.AfterFunc(500*time.Millisecond, cancel)
						}
						defer cancel()
						h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
					}()
				}
				time.Sleep(time.Minute)
				if n := served.Load(); n < c.least || n > c.most || reported.Load() != 0 {
					t.Errorf("the handler ran %d times, and %d failures of the store were reported; want %d to %d, and 0",
						n, reported.Load(), c.least, c.most)
				}
			})
		})
	}
}

// TestCountIfAnotherRate: a bucket that is full under the limit before a deploy tells clients a
// wait by the new rate, although the policy only asks.
func TestCountIfAnotherRate(t *testing.T) {
	lim, _ := inMemory(t)
	policy := httplimit.Policy{
		Name: "failures", Key: "k", Limit: brim.Over(5, 24*time.Hour), CountIf: func(status int) bool { return status == 200 },
	}
	for i, step := range []struct {
		limit brim.Limit
		after string // Retry-After of the refusal
	}{{brim.Over(5, 24*time.Hour), "17280"}, {brim.Over(5, time.Minute), "12"}, {brim.Over(5, time.Minute), "12"}} {
		policy.Limit = step.limit
		h := limited(t, lim, always(policy), &httplimit.Options{Shared: true})
		w := httptest.NewRecorder()
		for range 6 {
			w = httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		}
		if after := w.Header().Get("Retry-After"); w.Code != 429 || after != step.after {
			t.Errorf("step %d: status %d, Retry-After %q; want 429, %q", i, w.Code, after, step.after)
		}
	}
}

// TestCountIf counts logins that fail, beside a policy that counts all requests.
func TestCountIf(t *testing.T) {
	unauthorized := func(status int) bool { return status == http.StatusUnauthorized }
	failures := httplimit.Policy{Name: "failures", Key: "k", Limit: brim.Limit{Capacity: 2}, CountIf: unauthorized}
	all := httplimit.Policy{Name: "all", Key: "k", Limit: brim.Limit{Capacity: 100}}
	errors500 := httplimit.Policy{Name: "errors", Key: "k", Limit: brim.Limit{Capacity: 9}, CountIf: func(status int) bool { return status >= 500 }}
	for _, tc := range []struct {
		name     string
		policies []httplimit.Policy
	}{
		{"alone", []httplimit.Policy{failures}},
		{"beside others", []httplimit.Policy{all, failures, errors500}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lim, _ := inMemory(t)
			wrap, err := httplimit.New(lim, always(tc.policies...), nil)
			if err != nil {
				t.Fatal(err)
			}
			h := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Query().Get("do") {
				case "fail":
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusUnauthorized)
					w.WriteHeader(http.StatusOK) // has no effect
				case "panic":
					panic(http.ErrAbortHandler)
				case "fail and panic":
					w.WriteHeader(http.StatusUnauthorized)
					panic(http.ErrAbortHandler)
				case "flush":
					_ = http.NewResponseController(w).Flush()
				case "write":
					_, _ = w.Write([]byte("served"))
				}
			}))
			for i, step := range []struct {
				do             string
				status         int     // 0: httptest takes the first status for the last, or has none
				failed, errors float64 // in the buckets then
			}{
				{"", 200, 0, 0},
				{"write", 200, 0, 0},
				{"flush", 200, 0, 0},
				{"fail", 0, 1, 0},
				{"panic", 0, 1, 1},
				{"write", 200, 1, 1},
				{"fail and panic", 401, 2, 1},
				{"write", 429, 2, 1},
			} {
				w := httptest.NewRecorder()
				func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?do="+url.QueryEscape(step.do), nil))
				}()
				if step.status != 0 && w.Code != step.status {
					t.Errorf("%d, %q: status %d, want %d", i, step.do, w.Code, step.status)
				}
				level := func(p httplimit.Policy) float64 {
					st, err := lim.State(t.Context(), p.Limit.For(p.Name+":key:k"))
					if err != nil {
						t.Fatal(err)
					}
					return st.Level
				}
				if got := level(failures); got != step.failed {
					t.Errorf("%d, %q: %v failures counted, want %v", i, step.do, got, step.failed)
				}
				if got := level(errors500); len(tc.policies) > 1 && got != step.errors {
					t.Errorf("%d, %q: %v errors counted, want %v", i, step.do, got, step.errors)
				}
			}
		})
	}
}

// TestCountIfAfterLeaving: a login that failed counts although its client has hung up, and a store
// that fails then is told.
func TestCountIfAfterLeaving(t *testing.T) {
	var broken atomic.Bool
	var told error
	clock := newManual()
	inner := memory.New(&memory.Options{Clock: clock.Now})
	lim := brim.New(breakable{inner, &broken}, nil)
	p := httplimit.Policy{Name: "p", Key: "k", Limit: tens, CountIf: func(status int) bool { return status == http.StatusTeapot }}
	ctx, leave := context.WithCancel(t.Context())
	wrap, err := httplimit.New(lim, always(p), &httplimit.Options{OnError: func(_ *http.Request, err error) { told = err }})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave()
		broken.Store(r.URL.Path == "/broken")
		w.WriteHeader(http.StatusTeapot)
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if st, err := lim.State(t.Context(), tens.For("p:key:k")); err != nil || st.Level != 1 || told != nil {
		t.Errorf("%v, %v, told %v; want one unit", st, err, told)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/broken", nil))
	if !errors.Is(told, brim.ErrUnavailable) || !strings.Contains(told.Error(), "policy p was not counted rightly") {
		t.Errorf("told %v", told)
	}
}

// breakable is a store that fails while broken is set.
type breakable struct {
	store.Store
	broken *atomic.Bool
}

func (b breakable) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if b.broken.Load() {
		return store.State{}, brim.ErrUnavailable
	}
	return b.Store.Fill(ctx, op)
}

// TestRefuseByTheProgram answers refusals by a function, which finds the header ready.
func TestRefuseByTheProgram(t *testing.T) {
	lim, _ := inMemory(t)
	var got httplimit.Refusal
	h := limited(t, lim, httplimit.All(always(httplimit.Policy{Name: "wide", Key: "k", Limit: brim.Limit{Capacity: 100, LeakRate: 1}, Cost: costOf}),
		always(httplimit.Policy{Name: "narrow", Key: "k", Limit: tens, Cost: costOf})), &httplimit.Options{
		Fields: httplimit.DraftFields,
		Refuse: func(w http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) {
			got = refusal
			w.WriteHeader(http.StatusTeapot)
		},
	})
	if w := ask(h, "8"); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	w := ask(h, "5")
	if w.Code != http.StatusTeapot || w.Header().Get("Retry-After") != "3" || !strings.HasPrefix(w.Header().Get("RateLimit"), `"narrow";r=2`) {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	if got.Status != http.StatusTooManyRequests || got.Policy.Name != "narrow" || got.Cost != 5 ||
		got.State.RetryAfter != 3*time.Second || !slices.Equal(got.Violated, []string{"narrow"}) {
		t.Errorf("%+v", got)
	}
	for _, cost := range []string{"11", "1e300"} {
		w := ask(h, cost)
		if w.Code != http.StatusTeapot || w.Header().Get("Retry-After") != "" || got.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s units: %d, %v, %+v", cost, w.Code, w.Header(), got)
		}
	}
}
