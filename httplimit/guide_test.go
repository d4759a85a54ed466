package httplimit_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

// The functions of this file hold the code of docs/shaping.md and docs/http.md word for word, so
// that it compiles and runs.

func sendInTurn(ctx context.Context, lim *brim.Limiter, send func() error) error {
	turns, err := brim.NewShaper(lim, &brim.ShaperOptions{MaxWait: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	if _, err := turns.Wait(ctx, brim.Smooth(5, 2*time.Second).For("mail"), 1); err != nil {
		return err // an OverLimitError at once if the wait would be too long
	}
	return send() // it is the caller's turn
}

func checkTimeout(turns *brim.Shaper, limit brim.Limit, client *http.Client, logger *slog.Logger) {
	if err := turns.CheckTimeout(limit, client.Timeout); err != nil {
		logger.Warn(err.Error()) // names the largest capacity that works
	}
}

func serve(lim *brim.Limiter, mux *http.ServeMux, addr string, logger *slog.Logger) error {
	limited, err := httplimit.New(lim, httplimit.PerClient("site", brim.Over(100, time.Minute)), &httplimit.Options{
		Clients: httplimit.Clients{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, // your load balancers
		Fields:  httplimit.DraftFields,
		Jitter:  5 * time.Second,
		OnError: func(r *http.Request, err error) { logger.Error("limit", "err", err) },
	})
	if err != nil {
		return err
	}
	return http.ListenAndServe(addr, limited(mux))
}

func limitFailures(lim *brim.Limiter) (func(http.Handler) http.Handler, error) {
	var failures httplimit.PolicyFunc = func(r *http.Request) ([]httplimit.Policy, error) {
		return []httplimit.Policy{{
			Name: "logins", Key: r.FormValue("user"), Limit: brim.Over(5, time.Hour),
			CountIf: func(status int) bool { return status == http.StatusUnauthorized },
		}}, nil
	}
	return httplimit.New(lim, failures, &httplimit.Options{
		Refuse: func(w http.ResponseWriter, r *http.Request, refusal httplimit.Refusal) {
			http.Error(w, "too many wrong passwords; reset yours?", refusal.Status) // Retry-After is set
		},
	})
}

// withCORS serves pages of app.example. It stands outside the limit.
func withCORS(limited func(http.Handler) http.Handler, mux http.Handler) http.HandlerFunc {
	inner := limited(mux)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy")
		if r.Method != http.MethodOptions {
			inner.ServeHTTP(w, r)
		} // else it is a preflight request, and the header is the answer
	}
}

func fillWithRetries(ctx context.Context, lim *brim.Limiter, b brim.Bucket, n float64) (brim.State, error) {
	bound := 100 * time.Millisecond
	for {
		st, err := lim.TryFillup(ctx, b, n)
		if err != nil || st.Accepted || st.RetryAfter >= brim.Never {
			return st, err
		}
		// Waits until the amount fits, and then for a random part of the bound.
		wait := st.RetryAfter + rand.N(bound)
		bound = min(2*bound, 10*time.Second)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}

func TestGuideShaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := onRealClock(t)
		var sent atomic.Int64
		send := func() error { sent.Add(1); return nil }
		results := make(chan error)
		for range 6 {
			go func() { results <- sendInTurn(t.Context(), lim, send) }()
			synctest.Wait()
		}
		refused := 0
		for range 6 {
			if err := <-results; errors.Is(err, brim.ErrOverLimit) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if sent.Load() != 3 || refused != 3 {
			t.Errorf("%d letters sent, %d refused; want 3 and 3: turns after 0, 200 and 400 ms", sent.Load(), refused)
		}
	})
}

func TestGuideCheckTimeout(t *testing.T) {
	lim, _ := inMemory(t)
	turns, err := brim.NewShaper(lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	logger := slog.New(slog.NewTextHandler(&out, nil))
	checkTimeout(turns, brim.Smooth(5, 2*time.Second), &http.Client{Timeout: 3 * time.Second}, logger)
	if out.Len() != 0 {
		t.Errorf("logged %s; want nothing for a queue that is shorter than the timeout", &out)
	}
	checkTimeout(turns, brim.Smooth(5, 2*time.Second), &http.Client{Timeout: time.Second}, logger)
	if !strings.Contains(out.String(), "a capacity of at most 5") {
		t.Errorf("logged %q; want the largest capacity that works", &out)
	}
}

func TestGuideServe(t *testing.T) {
	lim, _ := inMemory(t)
	if err := serve(lim, http.NewServeMux(), "localhost:-1", slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "listen") {
		t.Errorf("%v; want the error of an invalid address", err)
	}
}

func TestGuideFailures(t *testing.T) {
	lim, _ := inMemory(t)
	wrap, err := limitFailures(lim)
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for i, step := range []struct {
		query string
		want  int
	}{
		{"user=a&password=right", 200},
		{"user=a", 401},
		{"user=a", 401},
		{"user=a", 401},
		{"user=a", 401},
		{"user=a&password=right", 200},
		{"user=a", 401},
		{"user=a&password=right", 429},
		{"user=b", 401},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login?"+step.query, nil))
		if w.Code != step.want || (w.Code == 429) != (w.Header().Get("Retry-After") == "720") {
			t.Errorf("%d: %s: %d, Retry-After %q; want %d", i, step.query, w.Code, w.Header().Get("Retry-After"), step.want)
		}
	}
}

// TestGuideCORS: a page can read the refusal, and preflight requests cost nothing.
func TestGuideCORS(t *testing.T) {
	lim, _ := inMemory(t)
	wrap, err := httplimit.New(lim, httplimit.PerClient("site", brim.Over(1, time.Minute)), &httplimit.Options{Fields: httplimit.DraftFields})
	if err != nil {
		t.Fatal(err)
	}
	h := withCORS(wrap, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, step := range []struct {
		method string
		want   int
	}{
		{http.MethodOptions, 200},
		{http.MethodOptions, 200},
		{http.MethodGet, 202},
		{http.MethodOptions, 200},
		{http.MethodGet, 429},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(step.method, "/", nil))
		if w.Code != step.want || w.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s: %d, %v; want %d for https://app.example", step.method, w.Code, w.Header(), step.want)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "R") && !strings.Contains(strings.ToLower(w.Header().Get("Access-Control-Expose-Headers")), strings.ToLower(name)) {
				t.Errorf("%s: a page cannot read %s", step.method, name)
			}
		}
	}
}

func TestGuideRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := onRealClock(t)
		start := time.Now()
		for range 12 {
			if st, err := fillWithRetries(t.Context(), lim, tens.For("k"), 1); err != nil || !st.Accepted {
				t.Fatalf("%+v, %v; want accepted", st, err)
			}
		}
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("12 units went into a bucket of 10 after %v; want 2s and some jitter", took)
		}
		if st, err := fillWithRetries(t.Context(), lim, tens.For("k"), 11); err != nil || st.RetryAfter < brim.Never {
			t.Errorf("an amount above the capacity: %+v, %v; want Never at once", st, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := fillWithRetries(ctx, lim, tens.For("k"), 10)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want the error of the context", err)
		}
	})
}
