package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// limit is that of every client: 1,000 tokens at once, and 10 a second after that.
var limit = brim.Limit{Capacity: 1000, LeakRate: 10}

// model answers calls, each of which uses a number of tokens.
type model struct {
	used    float64
	status  int
	cut     bool          // the answer breaks off
	waiting chan struct{} // a call waits until it is closed; nil: none waits
	calls   atomic.Int64
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	if m.waiting != nil {
		<-m.waiting
	}
	if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/chat" {
		http.Error(w, "not the gateway", http.StatusUnauthorized)
		return
	}
	if m.cut {
		w.Header().Set("Content-Length", "1000")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(m.status)
	fmt.Fprintf(w, `{"text": "hello", "usage": {"total_tokens": %v}}`, m.used)
}

// over returns a gateway to m. The clock of its limits stands.
func over(t *testing.T, m *model) *gateway {
	t.Helper()
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	db, err := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(m)
	t.Cleanup(api.Close)
	return &gateway{
		lim: brim.New(db, nil), limit: limit, upstream: api.URL, key: "secret", client: api.Client(),
		log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// call asks for an answer of at most so many tokens. The body has 30 bytes at most.
func call(g *gateway, client string, most int) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat", strings.NewReader(fmt.Sprintf(`{"max_tokens": %d}`, most)))
	if client != "" {
		r.Header.Set("Authorization", "Bearer "+client)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// level returns the sum of the levels of all buckets.
func level(t *testing.T, g *gateway) (sum float64) {
	t.Helper()
	for e, err := range g.lim.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Key, "alice") {
			t.Errorf("the store holds the client's token: %q", e.Key)
		}
		sum += e.Level
	}
	return sum
}

func TestGateway(t *testing.T) {
	for _, c := range []struct {
		name   string
		client string
		model  *model
		most   int
		status int
		level  float64 // of the bucket after the call
	}{
		{name: "less than the highest cost", client: "alice", model: &model{used: 120, status: 200}, most: 500, status: 200, level: 120},
		{name: "the API refuses", client: "alice", model: &model{used: 120, status: 429}, most: 500, status: 429},
		{name: "the API's answer is cut off", client: "alice", model: &model{used: 120, status: 200, cut: true}, most: 500, status: 502},
		{name: "too large", client: "alice", model: &model{status: 200}, most: 1000, status: 413},
		{name: "no tokens", client: "alice", model: &model{status: 200}, most: 0, status: 400},
		{name: "no client", model: &model{status: 200}, most: 5, status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := over(t, c.model)
			w := call(g, c.client, c.most)
			if w.Code != c.status || w.Code == 200 && !strings.Contains(w.Body.String(), "hello") {
				t.Errorf("%d, %s; want %d", w.Code, w.Body, c.status)
			}
			if got := level(t, g); got != c.level {
				t.Errorf("%v tokens are in the bucket; want %v", got, c.level)
			}
			if made := c.model.calls.Load() > 0; made != (c.status != 413 && c.status != 400 && c.status != 401) {
				t.Errorf("the API was called: %v", made)
			}
		})
	}
	t.Run("the API is away", func(t *testing.T) {
		g := over(t, &model{})
		g.upstream = "http://127.0.0.1:1"
		if w := call(g, "alice", 500); w.Code != http.StatusBadGateway || level(t, g) != 0 {
			t.Errorf("%d, level %v; want 502, and nothing in the bucket", w.Code, level(t, g))
		}
	})
	t.Run("the store is away", func(t *testing.T) {
		m := &model{}
		g := over(t, m)
		g.lim = brim.New(nil, nil)
		if w := call(g, "alice", 500); w.Code != http.StatusServiceUnavailable || m.calls.Load() != 0 {
			t.Errorf("%d, %d calls; want 503 and none", w.Code, m.calls.Load())
		}
	})
}

// TestCallsAtOnce makes calls at the same time. Each may use its highest cost, so only two fit
// into the bucket, although all would fit afterwards. Another client is not concerned.
func TestCallsAtOnce(t *testing.T) {
	m := &model{used: 10, status: 200, waiting: make(chan struct{})}
	g := over(t, m)
	codes := make(chan int, 8)
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() { codes <- call(g, "alice", 400).Code })
	}
	for range 5 { // the calls that do not fit return at once
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("a call beside two others: %d", code)
		}
	}
	all.Go(func() { codes <- call(g, "bob", 400).Code })
	close(m.waiting)
	all.Wait()
	for range 3 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a call that fits: %d", code)
		}
	}
	if got := level(t, g); got != 30 {
		t.Errorf("%v tokens are in the buckets; want 10 for each of three calls", got)
	}
	if w := call(g, "alice", 400); w.Code != http.StatusOK {
		t.Errorf("a call when the rest has gone back: %d", w.Code)
	}
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-upstream", "http://127.0.0.1:1", "-listen", "127.0.0.1:0"}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a gateway that is ended: %v", err)
	}
	for _, args := range [][]string{{}, {"-upstream", "http://127.0.0.1:1", "-tokens", "-1"}, {"-upstream", "http://127.0.0.1:1", "-store", "postgres:/x@y"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
