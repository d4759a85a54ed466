package from

import (
	"context"
	"math/rand/v2"
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

	// A reservation is one of a bucket that also has the units of the longest delay.
	synctest.Test(t, func(t *testing.T) {
		const burst, perSecond, maxWait = 5, 2, 3 * time.Second
		lim := rate.NewLimiter(perSecond, burst)
		limit := brim.Limit{Capacity: burst + perSecond*maxWait.Seconds(), LeakRate: perSecond}
		turns, err := brim.NewShaper(brim.New(memory.New(nil), nil), &brim.ShaperOptions{Burst: burst})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 2_000 {
			n := 1 + rng.IntN(burst)
			r := lim.ReserveN(time.Now(), n)
			delay := r.Delay()
			if delay > maxWait {
				r.Cancel()
			}
			got, err := turns.Reserve(t.Context(), limit.For("k"), float64(n))
			if err != nil || got.State.Accepted != (delay <= maxWait) || got.State.Accepted && (got.Delay()-delay).Abs() > time.Nanosecond {
				t.Errorf("call %d, %d units: x/time/rate waits %v, brim %v (%v)", i, n, delay, got, err)
			}
			time.Sleep(time.Duration(rng.Int64N(3_000_000)) * time.Microsecond)
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
