// Package sleep waits.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until the context ends, whose error it then returns.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
