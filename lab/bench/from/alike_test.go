package from

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// TestAlike sends the same 10,000 requests at random times to a token bucket, to GCRA and to a
// bucket, each with 5 at once and 2 a second: they decide alike. The GCRA of throttled is that of
// governor and of redis_rate, which ask another clock or another language.
func TestAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		limiter := brim.New(memory.New(nil), nil)
		limit := brim.Limit{Capacity: 5, LeakRate: 2}
		cells, cost := brim.GCRA(time.Second/2, 4*time.Second/2)
		tokens := rate.NewLimiter(2, 5)
		memory, err := memstore.NewCtx(100)
		if err != nil {
			t.Fatal(err)
		}
		gcra, err := throttled.NewGCRARateLimiterCtx(memory, throttled.RateQuota{MaxRate: throttled.PerSec(2), MaxBurst: 4})
		if err != nil {
			t.Fatal(err)
		}
		handler := tollboothHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		peers := map[string]func() bool{
			"x/time/rate": tokens.Allow,
			"throttled": func() bool {
				limited, _, err := gcra.RateLimitCtx(ctx, "k", 1)
				return err == nil && !limited
			},
			"tollbooth": func() bool {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				return w.Code == http.StatusOK
			},
			"brim.GCRA": func() bool {
				st, err := limiter.TryFillup(ctx, cells.For("cells"), cost)
				return err == nil && st.Accepted
			},
		}
		r, accepted := rand.New(rand.NewPCG(1, 7)), 0
		for i := range 10_000 {
			// Times of calm, of a load at the limit, and of an overload.
			time.Sleep(time.Duration(r.Int64N(int64(2*time.Second) >> (i / 100 % 4))))
			st, err := limiter.TryFillup(ctx, limit.For("k"), 1)
			if err != nil {
				t.Fatal(err)
			}
			if st.Accepted {
				accepted++
			}
			for name, allowed := range peers {
				if allowed() != st.Accepted {
					t.Fatalf("request %d: %s decides otherwise than a bucket, %v", i, name, st)
				}
			}
		}
		if accepted < 5000 || accepted > 9000 {
			t.Errorf("%d requests were accepted: the script compares little", accepted)
		}
	})
}
