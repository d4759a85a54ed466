package from

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/didip/tollbooth/v7"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
)

func tollboothHandler(next http.Handler) http.Handler {
	return tollbooth.LimitHandler(tollbooth.NewLimiter(2, nil).SetBurst(5), next)
}

func oursBefore(limiter *brim.Limiter, next http.Handler) (http.Handler, error) {
	perClient := httplimit.PerClient("site", brim.Limit{Capacity: 5, LeakRate: 2})
	limited, err := httplimit.New(limiter, perClient, nil)
	if err != nil {
		return nil, err
	}
	return limited(next), nil
}

// TestTollbooth: a changed request is that of another client for tollbooth, and not for brim.
func TestTollbooth(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	peer := tollboothHandler(served)
	h, err := oursBefore(inMemory(t), served)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		path, forwarded string
		served          bool // by tollbooth; brim serves the first five
	}{
		{"/", "", true},
		{"/", "", true},
		{"/", "", true},
		{"/", "", true},
		{"/", "", true},
		{"/", "", false},
		{"/", "198.51.100.7", true},
		{"/other", "", true},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		theirs, ours := httptest.NewRecorder(), httptest.NewRecorder()
		peer.ServeHTTP(theirs, r)
		h.ServeHTTP(ours, r)
		if (theirs.Code == http.StatusOK) != c.served || (ours.Code == http.StatusOK) != (i < 5) {
			t.Errorf("%d: tollbooth %d, brim %d", i, theirs.Code, ours.Code)
		}
		if theirs.Header().Get("Retry-After") != "" || (ours.Header().Get("Retry-After") == "1") != (i >= 5) {
			t.Errorf("%d: tollbooth %v, brim %v; the page says that tollbooth has no Retry-After", i, theirs.Header(), ours.Header())
		}
	}
}
