package pgrun

import (
	"context"
	"math/rand/v2"
	"time"
)

// retries is the largest number of attempts after the first.
const retries = 3

// retry calls attempt again while its error says that nothing was applied and that the same
// statement may succeed. It returns the error of the last attempt as the driver made it.
func (r *Runner) retry(ctx context.Context, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		if err == nil || n == retries {
			return err
		}
		switch v := judge(err); {
		case v == serialized && !r.explicit.Swap(true):
			continue // the next attempt asks for READ COMMITTED: there is nobody to wait for
		case v == serialized, v == retry:
			r.retrying(n+1, r.explain(err))
		default:
			return err
		}
		if backoff(ctx, n) != nil {
			return err
		}
	}
}

// backoff waits before the nth retry, with full jitter: two callers that collided come back at
// different times.
func backoff(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(10 * time.Millisecond << n))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
