package from

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
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
	admitsFive(t, func() error { return timeRate(lim) })
	lim = rate.NewLimiter(rate.Every(time.Hour), 5)
	lim.AllowN(time.Now(), 3)
	limiter := inMemory(t)
	if err := fromTimeRate(t.Context(), limiter, "user:42", lim); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, brim.Over(5, 5*time.Hour).For("user:42"), 3, 0.01)

	// A reservation is a fill of a bucket that also has the units of the longest delay.
	synctest.Test(t, func(t *testing.T) {
		const burst, perSecond, maxWait = 5, 2, 3
		lim, limiter := rate.NewLimiter(perSecond, burst), brim.New(memory.New(nil), nil)
		limit := brim.Limit{Capacity: burst + perSecond*maxWait, LeakRate: perSecond}
		for i := range 40 {
			r := lim.Reserve()
			delay := r.Delay()
			if delay > maxWait*time.Second {
				r.Cancel()
			}
			st, err := limiter.TryFillup(t.Context(), limit.For("k"), 1)
			after := time.Duration(max(0, st.Level-burst) / perSecond * float64(time.Second))
			if err != nil || st.Accepted != (delay <= maxWait*time.Second) || st.Accepted && (after-delay).Abs() > time.Microsecond {
				t.Errorf("call %d: x/time/rate waits %v, brim %v (%v, %v)", i, delay, after, st, err)
			}
			time.Sleep(time.Duration(50+i*7) * time.Millisecond)
		}
	})

	// A cost above the burst is refused like any other, and nothing tells that it never fits.
	if lim.AllowN(time.Now(), 6) {
		t.Error("x/time/rate accepts more than its burst")
	}
	st, err := limiter.TryFillup(t.Context(), brim.Over(5, 5*time.Hour).For("user:42"), 6)
	if err != nil || st.RetryAfter < brim.Never {
		t.Errorf("brim answers %+v, %v; want Never", st, err)
	}
}
