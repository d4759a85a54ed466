package bench

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

// result is what callers did in a while.
type result struct {
	took    histogram
	elapsed time.Duration // until the last answer
}

// run has callers call decide, each again as soon as it is answered, for d. The first error ends it.
func run(ctx context.Context, callers int, d time.Duration, decide func(context.Context, *rand.Rand) error) (*result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var res result
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	var start time.Time
	for range callers {
		r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		all.Go(func() {
			var took histogram
			<-begin
			for last := start; last.Sub(start) < d; {
				if err := decide(ctx, r); err != nil {
					cancel(err) // only the first cause counts: the others fail because of it
					break
				}
				now := time.Now()
				took.observe(now.Sub(last))
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			res.took.add(&took)
		})
	}
	start = time.Now()
	close(begin)
	all.Wait()
	res.elapsed = time.Since(start)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &res, nil
}

// histogram counts durations in classes of under 2 %. It has a fixed size, however fast the store is.
type histogram [58 * 64]uint64

func (h *histogram) observe(d time.Duration) {
	ns := uint64(max(0, d))
	shift := max(0, bits.Len64(ns)-7)
	h[shift*64+int(ns>>shift)]++
}

func (h *histogram) add(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

func (h *histogram) count() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// quantile returns, in milliseconds, the duration that the share q of all stayed within: the middle of its class.
func (h *histogram) quantile(q float64) float64 {
	rank := uint64(q * float64(h.count()))
	var seen uint64
	for i, c := range h {
		if seen += c; seen > rank {
			if i < 128 {
				return float64(i) / 1e6
			}
			shift := i/64 - 1
			return (float64(i-shift*64) + 0.5) * float64(uint64(1)<<shift) / 1e6
		}
	}
	return 0
}
