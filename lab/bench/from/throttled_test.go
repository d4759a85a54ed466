package from

import (
	"context"
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/brimgo/brim"
)

func throttledLimiter(ctx context.Context, lim *throttled.GCRARateLimiterCtx) error {
	limited, _, err := lim.RateLimitCtx(ctx, "user:42", 1)
	switch {
	case err != nil:
		return err
	case limited:
		return errRefused
	}
	return nil
}

// fromThrottled puts into the bucket the units that throttled still counts.
func fromThrottled(ctx context.Context, lim *throttled.GCRARateLimiterCtx, limiter *brim.Limiter, b brim.Bucket) error {
	_, res, err := lim.RateLimitCtx(ctx, b.Key, 0) // a quantity of 0 only asks
	if err != nil {
		return err
	}
	_, err = limiter.Fillup(ctx, b, res.ResetAfter.Seconds()*b.LeakRate)
	return err
}

func TestThrottled(t *testing.T) {
	ctx := t.Context()
	store, err := memstore.NewCtx(100)
	if err != nil {
		t.Fatal(err)
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerMin(5), MaxBurst: 4} // five at once: the burst and one more
	lim, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		t.Fatal(err)
	}
	admitsFive(t, func() error { return throttledLimiter(ctx, lim) })
	limiter := inMemory(t)
	bucket := brim.Over(5, time.Minute).For("user:42")
	if err := fromThrottled(ctx, lim, limiter, bucket); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, bucket, 5, 0.5)
}
