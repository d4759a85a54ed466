package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Options say how to load. All but Burst and Tolerant are required.
type Options struct {
	Callers int
	For     time.Duration
	Order   Order
	// Burst is how many decisions a caller makes between two looks at the clock; one of them is timed. More than 1 is for
	// limiters that take less time than reading the clock does.
	Burst int
	// Tolerant goes on after an error, which counts as failed. Otherwise the first one ends the run.
	Tolerant bool
	// Decide asks for one unit of a key, which is in a full bucket if full is set. Any number of callers are in it at once.
	Decide func(ctx context.Context, key int, full bool) (accepted bool, err error)
}

// Result is what the callers did.
type Result struct {
	Accepted, Refused, Failed uint64
	Elapsed                   time.Duration // until the last answer
	Took                      Histogram
	Err                       error // the first of those that were tolerated
}

// PerSecond is the decisions per second; what failed is none.
func (r *Result) PerSecond() float64 { return float64(r.Accepted+r.Refused) / r.Elapsed.Seconds() }

// Run loads until the time is up or, unless it tolerates errors, one comes.
func Run(ctx context.Context, o Options) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var res Result
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	var start time.Time
	for range o.Callers {
		at := rand.IntN(len(o.Order))
		all.Go(func() {
			mine := caller{Options: o, at: at}
			<-begin
			if err := mine.work(ctx, start); err != nil {
				cancel(err) // only the first cause counts: the others fail because of it
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
		return nil, context.Cause(ctx)
	}
	return &res, nil
}

// caller is one of them, with figures of its own: counters that all share would be what is measured.
type caller struct {
	Options
	Result
	at int
}

func (c *caller) work(ctx context.Context, start time.Time) error {
	burst := max(1, c.Burst)
	for last := start; last.Sub(start) < c.For; {
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

func (c *caller) decide(ctx context.Context) error {
	turn := c.Order[c.at]
	if c.at++; c.at == len(c.Order) {
		c.at = 0
	}
	key, full := int(turn), turn < 0
	if full {
		key = int(^turn)
	}
	accepted, err := c.Decide(ctx, key, full)
	switch {
	case err != nil && (!c.Tolerant || ctx.Err() != nil):
		return err
	case err != nil:
		c.Failed++
		if c.Err == nil {
			c.Err = err
		}
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
	if r.Err == nil {
		r.Err = other.Err
	}
}
