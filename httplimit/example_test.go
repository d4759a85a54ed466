package httplimit_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// A service accepts 2 requests at once for each API key, and then one every ten seconds.
func ExampleNew() {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	// The clock stands still, so that the output is always the same.
	db := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	perKey := httplimit.ByHeader("api", "X-API-Key", brim.Over(2, 20*time.Second))
	limited, err := httplimit.New(brim.New(db, nil), perKey, &httplimit.Options{Fields: httplimit.DraftFields})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", "alpha")
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Header().Get("RateLimit"))
	}
	// Output:
	// 200  "api";r=1;t=10
	// 200  "api";r=0;t=10
	// 429 10 "api";r=0;t=10
}

// Each client may call 5 times and log in 2 times, and an account that pays has no limit. A request
// counts under all of its policies or under none.
func ExamplePolicies() {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	db := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	perClient := httplimit.PerClient("client", brim.Over(5, 50*time.Second))
	logins := httplimit.PerClient("login", brim.Over(2, time.Minute))
	var policies httplimit.PolicyFunc = func(r *http.Request) ([]httplimit.Policy, error) {
		switch {
		case r.Header.Get("X-Account") == "pays":
			return nil, nil
		case r.URL.Path == "/login":
			return httplimit.All(perClient, logins).Select(r)
		}
		return perClient.Select(r)
	}
	limited, err := httplimit.New(brim.New(db, nil), policies, &httplimit.Options{Fields: httplimit.DraftFields})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))

	for _, path := range []string{"/login", "/login", "/login", "/"} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// /login 200 "login";r=1;t=30, "client";r=4;t=10
	// /login 200 "login";r=0;t=30, "client";r=3;t=10
	// /login 429 "login";r=0;t=30, "client";r=3;t=10
	// / 200 "client";r=2;t=10
}

// A handler that knows the cost of a request only after it has read the body asks the Limiter, and
// leaves the answer to a refusal to Refuse.
func ExampleRefuse() {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	db := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	lim := brim.New(db, nil)
	lines := brim.Limit{Capacity: 10, LeakRate: 0.5} // lines; lines per second

	service := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "not read", http.StatusBadRequest)
			return
		}
		n := float64(bytes.Count(body, []byte("\n")))
		st, err := lim.TryFillup(r.Context(), lines.For("all"), n)
		switch {
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case !st.Accepted:
			httplimit.Refuse(w, st, n)
		default:
			fmt.Fprint(w, "taken")
		}
	}
	for _, lines := range []int{8, 3, 11} {
		w := httptest.NewRecorder()
		service(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("line\n", lines))))
		fmt.Printf("%d lines: %d, Retry-After %q\n", lines, w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 8 lines: 200, Retry-After ""
	// 3 lines: 429, Retry-After "2"
	// 11 lines: 413, Retry-After ""
}

// All processes of a client together send at most 50 requests per second to an API. Here the
// bucket is in memory; a bucket in PostgreSQL can be shared by many machines.
func ExampleTransport() {
	db := memory.New(nil)
	turns, err := brim.NewShaper(brim.New(db, nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	transport, err := httplimit.NewTransport(turns, brim.Smooth(50, time.Second).For("api.example"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer api.Close()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	began := time.Now()
	for range 3 {
		resp, err := client.Get(api.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	fmt.Println("40 ms or more:", time.Since(began) >= 40*time.Millisecond)
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
	// 40 ms or more: true
}
