package load

import (
	"context"
	"sync"
	"time"
)

// backlog is the number of calls that can wait for a caller while the schedule goes on. If more
// calls are due, the schedule waits and then catches up. Their due times stay the same.
const backlog = 1 << 16

// RunOpen lets calls begin rate times a second, at equal distances, until the time is up. It
// returns when every call that was due has been answered, or as [Run] does after an error.
// Callers is the largest number of calls under way.
//
// The time of an answer counts from the moment at which the call was due. So a stall of the
// limiter also counts for the calls that had to wait behind it, and so does a late schedule.
// RunOpen times every call.
func RunOpen(ctx context.Context, o Options, rate float64) (*Result, error) {
	s := schedule{gap: float64(time.Second) / rate}
	s.calls = int(float64(o.For) / s.gap)
	ready := make(chan time.Duration, backlog)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	return gather(ctx, o, func(ctx context.Context, c *caller, number int, start time.Time) error {
		if number == 0 {
			keeper.Go(func() { s.keep(ctx, start, ready) })
		}
		for due := range ready {
			if ctx.Err() != nil { // a limiter may ignore ctx, and many calls may be waiting
				break
			}
			if err := c.answer(ctx, start, due); err != nil {
				return err
			}
		}
		return nil
	})
}

// schedule is the moments at which calls are due.
type schedule struct {
	gap   float64 // between two calls, in nanoseconds
	calls int
}

// due returns the time from the start to a call.
func (s schedule) due(call int) time.Duration { return time.Duration(float64(call) * s.gap) }

// keep sends the due time of each call when it is due, and closes ready after the last, or when
// ctx ends.
func (s schedule) keep(ctx context.Context, start time.Time, ready chan<- time.Duration) {
	defer close(ready)
	pause := newPause()
	for call := range s.calls {
		due := s.due(call)
		for early := due - time.Since(start); early > 0; early = due - time.Since(start) {
			pause(early)
		}
		select {
		case ready <- due:
		case <-ctx.Done():
			return
		}
	}
}

// answer makes the decision that was due at a time after start, and times it from then on.
func (c *caller) answer(ctx context.Context, start time.Time, due time.Duration) error {
	if err := c.decide(ctx); err != nil {
		return err
	}
	c.Took.Observe(time.Since(start) - due)
	return nil
}
