package from

import (
	"context"
	"testing"
	"time"

	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/brimgo/brim"
)

func ululeLimiter(ctx context.Context, lim *ulule.Limiter) error {
	c, err := lim.Get(ctx, "user:42")
	switch {
	case err != nil:
		return err
	case c.Reached:
		return errRefused
	}
	return nil
}

// fromUlule puts into the bucket the requests that the window has counted so far.
func fromUlule(ctx context.Context, lim *ulule.Limiter, limiter *brim.Limiter, key string) error {
	c, err := lim.Peek(ctx, key)
	if err != nil {
		return err
	}
	limit := brim.Over(float64(lim.Rate.Limit), lim.Rate.Period)
	_, err = limiter.Fillup(ctx, limit.For(key), float64(c.Limit-c.Remaining))
	return err
}

func TestUlule(t *testing.T) {
	ctx := t.Context()
	lim := ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: 5})
	limiter := inMemory(t)
	bucket := brim.Over(5, time.Hour).For("user:42")
	for i := range 6 {
		if err := ululeLimiter(ctx, lim); (err == nil) != (i < 5) {
			t.Errorf("call %d: %v", i, err)
		}
		if i == 2 {
			if err := fromUlule(ctx, lim, limiter, "user:42"); err != nil {
				t.Fatal(err)
			}
			level(t, limiter, bucket, 3, 0)
		}
	}
	if err := fromUlule(ctx, lim, limiter, "user:7"); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, brim.Over(5, time.Hour).For("user:7"), 0, 0)

	// Nothing fits until the window ends; in a bucket, a unit fits after a fifth of it.
	c, err := lim.Peek(ctx, "user:42")
	if err != nil || time.Until(time.Unix(c.Reset, 0)) < 59*time.Minute {
		t.Errorf("ulule answers %+v, %v; the page says that the window ends for all at once", c, err)
	}
	if _, err := limiter.Fillup(ctx, bucket, 5); err != nil {
		t.Fatal(err)
	}
	if st, err := limiter.TryFillup(ctx, bucket, 1); err != nil || st.RetryAfter != 12*time.Minute {
		t.Errorf("brim answers %+v, %v; want 12 minutes", st, err)
	}
}
