package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Options describe a run. All fields but Burst and Tolerant are required.
type Options struct {
	Callers int
	For     time.Duration
	Order   Order
	// Burst is the number of decisions that a caller of [Run] makes between two readings of the
	// clock. One of the decisions is timed. The default is 1. Use more for limiters that decide in
	// less time than a reading of the clock takes.
	Burst int
	// Tolerant makes an error count as a failed call. Without it the first error ends the run.
	Tolerant bool
	// Decide asks for one unit of the key with a number or, if full is set, of the full bucket
	// with that number. Any number of callers call it at once.
	Decide func(ctx context.Context, key int, full bool) (accepted bool, err error)
}

// Result contains the figures of a run.
type Result struct {
	Accepted, Refused, Failed uint64
	Elapsed                   time.Duration // from the start to the last answer
	Took                      Histogram
}

// PerSecond returns the decisions per second. A failed call is not a decision.
func (r *Result) PerSecond() float64 { return float64(r.Accepted+r.Refused) / r.Elapsed.Seconds() }

// Run lets the callers ask until the time is up. It ends at once with the first error that it
// does not tolerate, or with the cause of ctx. Beside an error, the result has the decisions before
// it.
func Run(ctx context.Context, o Options) (*Result, error) {
	return gather(ctx, o, func(ctx context.Context, c *caller, _ int, start time.Time) error {
		return c.work(ctx, start)
	})
}

// gather runs work for each caller at once, and returns the sum of their results. It passes the
// number of the caller, from 0, and the time of the start.
func gather(ctx context.Context, o Options,
	work func(ctx context.Context, c *caller, number int, start time.Time) error,
) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var res Result
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	var start time.Time
	for number := range o.Callers {
		at := rand.IntN(len(o.Order))
		all.Go(func() {
			mine := caller{Options: o, at: at}
			<-begin
			if err := work(ctx, &mine, number, start); err != nil {
				cancel(err) // only the first error counts; later errors are its consequences
			}
			mu.Lock()
			defer mu.Unlock()
			res.add(&mine.Result)
		})
	}
	start = time.Now()
	close(begin)
	all.Wait()
	res.Elapsed = time.Since(start)
	if ctx.Err() != nil {
		return &res, context.Cause(ctx)
	}
	return &res, nil
}

// caller is one caller with counters of its own. Shared counters would slow the callers down.
type caller struct {
	Options
	Result
	at int
}

// work makes decisions until the time is up, or until ctx ends: a limiter may ignore ctx.
func (c *caller) work(ctx context.Context, start time.Time) error {
	burst := max(1, c.Burst)
	for last := start; last.Sub(start) < c.For && ctx.Err() == nil; {
		if err := c.decide(ctx); err != nil {
			return err
		}
		now := time.Now()
		c.Took.Observe(now.Sub(last))
		for range burst - 1 {
			if err := c.decide(ctx); err != nil {
				return err
			}
		}
		if last = now; burst > 1 {
			last = time.Now()
		}
	}
	return nil
}

// decide makes one decision, and counts it.
func (c *caller) decide(ctx context.Context) error {
	drawn := c.Order[c.at]
	if c.at++; c.at == len(c.Order) {
		c.at = 0
	}
	key, full := int(drawn), drawn < 0
	if full {
		key = int(^drawn)
	}
	accepted, err := c.Decide(ctx, key, full)
	switch {
	case err != nil && (!c.Tolerant || ctx.Err() != nil):
		return err
	case err != nil:
		c.Failed++
	case accepted:
		c.Accepted++
	default:
		c.Refused++
	}
	return nil
}

func (r *Result) add(other *Result) {
	r.Accepted += other.Accepted
	r.Refused += other.Refused
	r.Failed += other.Failed
	r.Took.Add(&other.Took)
}
