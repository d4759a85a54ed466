package from

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

func httprateRouter(r chi.Router) {
	r.Use(httprate.LimitBy(5, time.Minute, func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(r.RemoteAddr), nil
	}))
}

func oursOnRouter(r chi.Router, limiter *brim.Limiter) error {
	limited, err := httplimit.New(limiter, httplimit.PerClient("site", brim.Over(5, time.Minute)), nil)
	if err != nil {
		return err
	}
	r.Use(limited)
	return nil
}

// onRouter returns a function that sends a request of one client, and returns whether it was
// served, and else the Retry-After.
func onRouter(t *testing.T, use func(chi.Router) error) func() (served bool, after string) {
	t.Helper()
	r := chi.NewRouter()
	if err := use(r); err != nil {
		t.Fatal(err)
	}
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	return func() (bool, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code == http.StatusOK, w.Header().Get("Retry-After")
	}
}

// TestHttprate sends the same requests through both: a burst, and then one a second for two
// minutes.
func TestHttprate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(nil)
		for _, c := range []struct {
			name       string
			use        func(chi.Router) error
			after      string
			first, all int // the second of the next request that is served; requests in two minutes
		}{
			{"httprate", func(r chi.Router) error { httprateRouter(r); return nil }, "60", 67, 5},
			{"brim", func(r chi.Router) error { return oursOnRouter(r, brim.New(s, nil)) }, "12", 12, 10},
		} {
			call := onRouter(t, c.use)
			for i := range 6 {
				if served, after := call(); served != (i < 5) || !served && after != c.after {
					t.Errorf("%s: request %d of the burst: %v, Retry-After %s; the page says %s", c.name, i+1, served, after, c.after)
				}
			}
			first, all := 0, 0
			for second := 1; second <= 120; second++ {
				time.Sleep(time.Second)
				if served, _ := call(); served {
					all++
					if first == 0 {
						first = second
					}
				}
			}
			if first != c.first || all != c.all {
				t.Errorf("%s: served in second %d, and %d in two minutes; the page says %d and %d", c.name, first, all, c.first, c.all)
			}
		}
	})
}
