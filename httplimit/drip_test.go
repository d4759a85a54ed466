package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

// TestNextDrip makes the calls of docs/algorithms.md, under a limit of ten calls in ten seconds for
// each address. The eleventh call is refused until the next drip. Retry-After is in whole seconds,
// rounded up.
func TestNextDrip(t *testing.T) {
	lim, clock := inMemory(t)
	start := clock.Now()
	h := limited(t, lim, httplimit.PerClient("calls", brim.Over(10, 10*time.Second)), nil)
	call := func(since time.Duration, address string) *httptest.ResponseRecorder {
		clock.Set(start.Add(since))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for i := range 10 {
		if w := call(0, "192.0.2.1:1000"); w.Code != http.StatusOK {
			t.Fatalf("call %d: status %d; want 200", i+1, w.Code)
		}
	}
	for _, tc := range []struct {
		at      time.Duration
		address string
		status  int
		drip    time.Duration
	}{
		{221 * time.Millisecond, "192.0.2.1:1001", http.StatusTooManyRequests, 779 * time.Millisecond},
		{458 * time.Millisecond, "192.0.2.1:1002", http.StatusTooManyRequests, 542 * time.Millisecond},
		{458 * time.Millisecond, "192.0.2.2:1000", http.StatusOK, 0},
		{time.Second, "192.0.2.1:1003", http.StatusOK, 0},
	} {
		w := call(tc.at, tc.address)
		if w.Code != tc.status || (tc.drip > 0) != (w.Header().Get("Retry-After") == "1") {
			t.Errorf("%v, %s: status %d, Retry-After %q; want %d", tc.at, tc.address, w.Code, w.Header().Get("Retry-After"), tc.status)
		}
		if tc.drip == 0 {
			continue
		}
		for e, err := range lim.List(t.Context(), "") { // so far, only the first address has a bucket
			if err != nil {
				t.Fatal(err)
			}
			st, err := lim.AbleToAccept(t.Context(), brim.Over(10, 10*time.Second).For(e.Key), 1)
			if err != nil || st.RetryAfter != tc.drip {
				t.Errorf("%v: the next drip is in %v, %v; want %v", tc.at, st.RetryAfter, err, tc.drip)
			}
		}
	}
}
