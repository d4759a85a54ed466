package combine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/invariant"
	"github.com/brimgo/brim/store"
)

// TestStorm cancels calls at random moments. If a request were used again while a flush still
// has it, a caller would get the answer of another, and the race detector would see it.
func TestStorm(t *testing.T) {
	var inFlight [3]atomic.Int32
	c := mustNew(t, func(lane int, batch []*Request[int, int]) {
		if inFlight[lane].Add(1) != 1 {
			t.Error("two flushes of one lane at once")
		}
		runtime.Gosched()
		for _, r := range batch {
			r.Out = 2 * r.In
		}
		inFlight[lane].Add(-1)
	}, &Options{Lanes: 3, MaxBatch: 7})
	var wg sync.WaitGroup
	var withdrawn, unknown, done atomic.Int32
	for g := range 32 {
		wg.Go(func() {
			for i := range 200 {
				in := g*1000 + i
				ctx, cancel := context.WithCancel(context.Background())
				if i%3 == 0 {
					go cancel()
				}
				out, err := c.Do(ctx, uint64(in), in)
				switch {
				case err == nil && out == 2*in:
					done.Add(1)
				case errors.Is(err, store.ErrUnknownOutcome) && errors.Is(err, context.Canceled):
					unknown.Add(1)
				case err == context.Canceled:
					withdrawn.Add(1)
				default:
					t.Errorf("answer %d, %v", out, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	c.Close()
	if done.Load() < 32*133 { // requests with i%3 != 0 are never cancelled
		t.Errorf("%d of %d answered, %d withdrawn, %d unknown", done.Load(), 32*200, withdrawn.Load(), unknown.Load())
	}
}

func TestNoAllocation(t *testing.T) {
	c := mustNew(t, func(_ int, batch []*Request[int, int]) { batch[0].Out = 1 }, nil)
	defer c.Close()
	ctx := context.Background()
	// The race detector, with which invariants are on, makes sync.Pool forget at random.
	if n := testing.AllocsPerRun(1000, func() { _, _ = c.Do(ctx, 0, 1) }); n >= 1 && !invariant.On {
		t.Errorf("%v allocations for a lone request, want 0", n)
	}
}
