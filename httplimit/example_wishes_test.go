package httplimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// The examples of this file are wishes of programs to a middleware, each in a function of a few
// lines.

// perPlan limits each account by its plan.
func perPlan(lim *brim.Limiter, plans map[string]brim.Limit, planOf func(account string) string) (func(http.Handler) http.Handler, error) {
	return httplimit.New(lim, httplimit.PolicyFunc(func(r *http.Request) ([]httplimit.Policy, error) {
		account := r.Header.Get("X-Account") // which the application has checked
		return []httplimit.Policy{{Name: "plan", Key: account, Limit: plans[planOf(account)]}}, nil
	}), nil)
}

// The limits come from a configuration. One plan has no limit, and the account of another is
// closed.
func Example_limitPerPlan() {
	var plans map[string]brim.Limit
	err := json.Unmarshal([]byte(`{"free": "2/1h", "team": "unlimited", "closed": "nobody"}`), &plans)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := example(perPlan(exampleLimiter(), plans, func(account string) string { return account }))
	for _, plan := range []string{"free", "team", "closed"} {
		fmt.Println(plan, get(h, "/", "X-Account", plan), get(h, "/", "X-Account", plan), get(h, "/", "X-Account", plan))
	}
	// Output:
	// free 200 200 429 after 1800 s
	// team 200 200 200
	// closed 429 429 429
}

// refusing answers a refusal in the program's own words. Retry-After is set already.
func refusing(lim *brim.Limiter, policies httplimit.Policies) (func(http.Handler) http.Handler, error) {
	return httplimit.New(lim, policies, &httplimit.Options{
		Refuse: func(w http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) {
			fmt.Printf("log: %s refuses; %v\n", strings.Join(refusal.Violated, ", "), refusal.State)
			http.Error(w, "slow down, please", refusal.Status)
		},
	})
}

func Example_ownRefusal() {
	h := example(refusing(exampleLimiter(), httplimit.PerClient("api", brim.Over(1, time.Minute))))
	fmt.Println(get(h, "/"), get(h, "/"))
	// Output:
	// log: api refuses; refused, retry after 1m0s: 1 of 1 units, leak 0.016666666666666666/s
	// 200 429 after 60 s
}

// several has limits per second and per day, which are decided together.
func several(lim *brim.Limiter) (func(http.Handler) http.Handler, error) {
	return httplimit.New(lim, httplimit.All(
		httplimit.PerClient("minute", brim.Over(2, time.Minute)),
		httplimit.PerClient("day", brim.Over(100, 24*time.Hour)),
	), nil)
}

// A refused request counts under no limit: the day is charged with the two that were served.
func Example_severalLimits() {
	lim := exampleLimiter()
	h := example(several(lim))
	for range 50 {
		get(h, "/")
	}
	day, err := lim.StateOf(exampleContext, "day:ip:192.0.2.1")
	fmt.Println(day.Level, err)
	// Output: 2 <nil>
}

// failedLogins counts logins that fail. A burst of them does not pass the limit either.
func failedLogins(lim *brim.Limiter) (func(http.Handler) http.Handler, error) {
	return httplimit.New(lim, httplimit.PolicyFunc(func(r *http.Request) ([]httplimit.Policy, error) {
		return []httplimit.Policy{{
			Name: "logins", Key: r.FormValue("user"), Limit: brim.Over(2, time.Hour),
			CountIf: func(status int) bool { return status == http.StatusUnauthorized }, Strict: true,
		}}, nil
	}), nil)
}

func Example_failedLogins() {
	h := example(failedLogins(exampleLimiter()))
	fmt.Println(get(h, "/?user=a"), get(h, "/?user=a"), get(h, "/?user=a"))
	fmt.Println(get(h, "/?user=b&fail=1"), get(h, "/?user=b&fail=1"), get(h, "/?user=b&fail=1"))
	// Output:
	// 200 200 200
	// 401 401 429 after 1800 s
}

// byItems lets health checks pass, and charges each other request by its number of items.
func byItems(lim *brim.Limiter) (func(http.Handler) http.Handler, error) {
	items := func(r *http.Request) float64 { return float64(len(r.URL.Query()["id"])) }
	return httplimit.New(lim, httplimit.PolicyFunc(func(*http.Request) ([]httplimit.Policy, error) {
		return []httplimit.Policy{{Name: "items", Limit: brim.Over(10, time.Minute), Cost: items}}, nil
	}), &httplimit.Options{Skip: func(r *http.Request) bool { return r.URL.Path == "/health" }})
}

func Example_skipAndCost() {
	h := example(byItems(exampleLimiter()))
	six := "/?" + strings.Repeat("&id=1", 6)
	fmt.Println(get(h, six), get(h, six), get(h, "/health"))
	// Output: 200 429 after 12 s 200
}

// outages has each of four processes admit a quarter of every limit while the store is out of
// reach.
func outages(s store.Store) (func(http.Handler) http.Handler, error) {
	return httplimit.New(brim.New(s, nil), httplimit.PerClient("api", brim.Over(8, time.Hour)),
		&httplimit.Options{OnUnavailable: httplimit.FailOpen, Share: 0.25})
}

func Example_storeDown() {
	h := example(outages(broken{err: brim.ErrUnavailable}))
	fmt.Println(get(h, "/"), get(h, "/"), get(h, "/"))
	// Output: 200 200 429 after 1800 s
}

// perHousehold tells clients apart behind the program's own proxies, and takes all addresses that a
// provider gives a customer for one client.
func perHousehold(lim *brim.Limiter) (func(http.Handler) http.Handler, error) {
	return httplimit.New(lim, httplimit.PerClient("api", brim.Over(1, time.Minute)), &httplimit.Options{
		Clients: httplimit.Clients{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, IPv6Prefix: 56},
	})
}

func Example_clients() {
	h := example(perHousehold(exampleLimiter()))
	for _, client := range []string{"198.51.100.7", "2001:db8:0:100::1", "2001:db8:0:1ff::2", "2001:db8:0:200::3"} {
		fmt.Println(client, get(h, "/", "X-Forwarded-For", client))
	}
	// Output:
	// 198.51.100.7 200
	// 2001:db8:0:100::1 200
	// 2001:db8:0:1ff::2 429 after 60 s
	// 2001:db8:0:200::3 200
}

// inFlight lets a client run so many requests at once, until their bodies are written. The slots of
// a server that was killed are free after 30 seconds.
func inFlight(lim *brim.Limiter, most int, clients *httplimit.Clients, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		slot, err := lim.Acquire(r.Context(), "requests:"+clients.Key(r), most, 30*time.Second)
		if over, ok := errors.AsType[*brim.OverLimitError](err); ok {
			httplimit.Refuse(w, over.State, 1)
		} else if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		} else {
			ctx, release := slot.Keep(r.Context()) // ends if the slot is lost
			defer release()
			next.ServeHTTP(w, r.WithContext(ctx))
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func Example_inFlight() {
	lim := exampleLimiter()
	var h http.Handler
	h = inFlight(lim, 2, &httplimit.Clients{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" { // another one, while this one runs
			fmt.Println(r.URL.Path, get(h, r.URL.Path[1:]))
		}
	}))
	fmt.Println(get(h, "///"), get(h, "/"))
	// Output:
	// // 429 after 30 s
	// /// 200
	// 200 200
}

var exampleContext = httptest.NewRequest(http.MethodGet, "/", nil).Context()

// exampleLimiter returns a Limiter whose clock stands still, so that the output is always the same.
func exampleLimiter() *brim.Limiter {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	return brim.New(memory.New(&memory.Options{Clock: func() time.Time { return noon }}), nil)
}

// example puts limits in front of a handler that fails if the request says so.
func example(limited func(http.Handler) http.Handler, err error) http.Handler {
	if err != nil {
		panic(err)
	}
	return limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("fail") != "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
}

// get makes a request and returns the status and the Retry-After.
func get(h http.Handler, target string, header ...string) string {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if after := w.Header().Get("Retry-After"); after != "" {
		return fmt.Sprintf("%d after %s s", w.Code, after)
	}
	return fmt.Sprint(w.Code)
}
