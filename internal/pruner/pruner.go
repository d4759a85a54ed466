// Package pruner prunes a store at an interval, for the option PruneEvery of the backends.
package pruner

import (
	"context"
	"log/slog"
	"time"
)

// Pruner is the goroutine that prunes a store. A nil Pruner prunes nothing, and its Stop does
// nothing.
type Pruner struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended
}

// Start calls prune at each interval until Stop. It returns nil if every is not positive. The log
// gets the number of buckets that a call removed, and its error: the next interval tries again.
// Backend is the first word of each message.
func Start(every time.Duration, prune func(context.Context) (int64, error), backend string, log *slog.Logger) *Pruner {
	if every <= 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pruner{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			switch n, err := prune(ctx); {
			case ctx.Err() != nil:
			case err != nil:
				log.Error(backend+": pruning failed; it will be tried again", "in", every, "error", err)
			case n > 0:
				log.Info(backend+": pruned buckets that had leaked empty", "removed", n)
			}
		}
	}()
	return p
}

// Stop ends the call of prune in flight by its context, and waits until it has returned. A store
// stops its Pruner before it closes itself, so that no call of prune fails because of that.
func (p *Pruner) Stop() {
	if p != nil {
		p.cancel()
		<-p.ended
	}
}
