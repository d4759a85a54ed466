package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// A service takes 2 requests at a time of each API key, and one every ten seconds after that.
func ExampleNew() {
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	db, err := memory.New(&memory.Options{Clock: func() time.Time { return noon }}) // so that the output is always the same
	if err != nil {
		fmt.Println(err)
		return
	}
	limited, err := httplimit.New(brim.New(db, nil), brim.Over(2, 20*time.Second), httplimit.FailClosed, &httplimit.Options{
		Key:    httplimit.ByHeader("X-API-Key"),
		Fields: httplimit.DraftFields,
	})
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
	// 200  "default";r=1;t=10
	// 200  "default";r=0;t=10
	// 429 10 "default";r=0;t=10
}

// A client that asks an API 50 times a second at most, however many of its processes do. Here they share a bucket in memory; in
// PostgreSQL they can be on many machines.
func ExampleTransport() {
	db, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
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
