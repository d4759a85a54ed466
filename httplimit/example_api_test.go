package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// Plan is a plan of an API: a rate and a quota of the month. It is read from a configuration.
type Plan struct{ Rate, Month brim.Limit }

// newAPI serves an API behind a proxy of the network 10.0.0.0/8. planOf tells the plan of a key,
// and whether there is such a key. Health checks are not limited.
func newAPI(lim *brim.Limiter, planOf func(key string) (Plan, bool), service http.Handler) (http.Handler, error) {
	policies := httplimit.PolicyFunc(func(r *http.Request) ([]httplimit.Policy, error) {
		key := r.Header.Get("X-API-Key")
		plan, known := planOf(key)
		if !known { // strangers share a small rate for each address, so that nobody can guess keys
			return []httplimit.Policy{{Name: "stranger", Limit: brim.Over(5, time.Minute)}}, nil
		}
		return []httplimit.Policy{
			{Name: "second", Key: key, Limit: plan.Rate},
			{Name: "month", Key: key, Limit: plan.Month},
		}, nil
	})
	limited, err := httplimit.New(lim, policies, &httplimit.Options{
		Clients: httplimit.Clients{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Fields:  httplimit.DraftFields,
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/health" },
		Refuse: func(w http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) {
			w.Header().Set("Content-Type", "application/json") // Retry-After is set already
			w.WriteHeader(refusal.Status)
			fmt.Fprintf(w, `{"error": "over your limit per %s"}`, strings.Join(refusal.Violated, " and "))
		},
	})
	if err != nil {
		return nil, err
	}
	return limited(service), nil
}

// The test of the API moves a clock of its own, and sleeps nowhere.
func Example_api() {
	plans := make(map[string]Plan)
	if err := json.Unmarshal([]byte(`{"k-1": {"Rate": "2/1s", "Month": "4/month@Europe/Berlin"}}`), &plans); err != nil {
		fmt.Println(err)
		return
	}
	clock := brimtest.NewClock(time.Date(2024, 6, 30, 21, 59, 50, 0, time.UTC)) // ten seconds before July in Berlin
	lim := brim.New(memory.New(&memory.Options{Clock: clock.Now}), nil)
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	api, err := newAPI(lim, func(key string) (Plan, bool) { p, known := plans[key]; return p, known }, service)
	if err != nil {
		fmt.Println(err)
		return
	}

	call := func(path, key string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "10.0.0.1:1234" // the proxy
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Print(path, " ", key, " ", w.Code, " ", w.Body)
		if after := w.Header().Get("Retry-After"); after != "" {
			fmt.Print(", retry in ", after, " s")
		}
		fmt.Println()
	}
	for range 3 {
		call("/", "k-1")
	}
	clock.Advance(time.Second)
	for range 3 {
		call("/", "k-1")
	}
	call("/health", "k-1")
	free, paid := plans["k-1"], plans["k-1"]
	paid.Month.Capacity = 10
	plans["k-1"] = paid // from one request to the next
	clock.Advance(time.Second)
	call("/", "k-1")
	plans["k-1"] = free
	clock.Advance(8 * time.Second)
	call("/", "k-1")
	for range 6 {
		call("/", "guess")
	}
	// Output:
	// / k-1 200 hello
	// / k-1 200 hello
	// / k-1 429 {"error": "over your limit per second"}, retry in 1 s
	// / k-1 200 hello
	// / k-1 200 hello
	// / k-1 429 {"error": "over your limit per second and month"}, retry in 9 s
	// /health k-1 200 hello
	// / k-1 200 hello
	// / k-1 200 hello
	// / guess 200 hello
	// / guess 200 hello
	// / guess 200 hello
	// / guess 200 hello
	// / guess 200 hello
	// / guess 429 {"error": "over your limit per stranger"}, retry in 12 s
}
