package from

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
)

func timeRate(lim *rate.Limiter) error {
	if !lim.Allow() {
		return errRefused
	}
	return nil
}

// fromTimeRate puts into the bucket the tokens that the limiter has given out and not got back.
func fromTimeRate(ctx context.Context, limiter *brim.Limiter, key string, lim *rate.Limiter) error {
	limit := brim.Limit{Capacity: float64(lim.Burst()), LeakRate: float64(lim.Limit())}
	used := limit.Capacity - lim.Tokens()
	_, err := limiter.Fillup(ctx, limit.For(key), used)
	return err
}

func TestTimeRate(t *testing.T) {
	lim := rate.NewLimiter(rate.Every(12*time.Second), 5)
	for i := range 6 {
		if err := timeRate(lim); (err == nil) != (i < 5) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	lim = rate.NewLimiter(rate.Every(time.Hour), 5)
	lim.AllowN(time.Now(), 3)
	limiter := inMemory(t)
	if err := fromTimeRate(t.Context(), limiter, "user:42", lim); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, brim.Over(5, 5*time.Hour).For("user:42"), 3, 0.01)

	// A cost above the burst is refused like any other, and nothing tells that it never fits.
	if lim.AllowN(time.Now(), 6) {
		t.Error("x/time/rate accepts more than its burst")
	}
	st, err := limiter.TryFillup(t.Context(), brim.Over(5, 5*time.Hour).For("user:42"), 6)
	if err != nil || st.RetryAfter != brim.Never {
		t.Errorf("brim answers %+v, %v; want Never", st, err)
	}
}
