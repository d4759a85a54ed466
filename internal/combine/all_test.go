package combine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/store"
)

// TestAll: requests that come together go out together, in their order, behind a flush that is in
// flight, and in batches of at most MaxBatch.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := mustNew(t, g.flush, &Options{MaxBatch: 3})
		one := do(context.Background(), c, 1)
		batchIs(t, <-g.started, 1)
		type result struct {
			out  []int
			errs []error
		}
		all := make(chan result, 1)
		go func() {
			out, errs := c.DoAll(context.Background(), 5, []int{2, 3, 4, 5})
			all <- result{out, errs}
		}()
		synctest.Wait()
		for _, batch := range [][]int{{2, 3, 4}, {5}} {
			g.proceed <- struct{}{}
			batchIs(t, <-g.started, batch...)
		}
		g.proceed <- struct{}{}
		want(t, one, 2)
		got := <-all
		batchIs(t, got.out, 4, 6, 8, 10)
		if err := errors.Join(got.errs...); err != nil || len(got.errs) != 4 {
			t.Errorf("errors %v", got.errs)
		}
		idle(t, c)
	})
}

// TestAllWithoutAnswer: a request of several that is queued when the context ends is taken back.
// One in flight has an unknown outcome.
func TestAllWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := mustNew(t, g.flush, &Options{MaxBatch: 2})
		ctx, cancel := cancellable(t)
		all := make(chan []error, 1)
		go func() {
			_, errs := c.DoAll(ctx, 0, []int{1, 2, 3})
			all <- errs
		}()
		batchIs(t, <-g.started, 1, 2)
		cancel()
		errs := <-all
		for i, err := range errs {
			if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) != (i < 2) {
				t.Errorf("request %d: %v; want a cancelled call, of unknown outcome if it was in flight", i+1, err)
			}
		}
		g.proceed <- struct{}{}
		synctest.Wait()
		if _, errs := c.DoAll(ctx, 0, []int{4}); !errors.Is(errs[0], context.Canceled) || errors.Is(errs[0], store.ErrUnknownOutcome) {
			t.Errorf("with a context that has ended: %v", errs)
		}
		if out, errs := c.DoAll(context.Background(), 0, nil); len(out)+len(errs) != 0 {
			t.Errorf("no requests: %v, %v", out, errs)
		}
		idle(t, c)
		if _, errs := c.DoAll(context.Background(), 0, []int{5}); !errors.Is(errs[0], store.ErrClosed) {
			t.Errorf("after Close: %v; want ErrClosed", errs)
		}
	})
}

// TestAllTakesALane: requests that come together take an idle lane at once if they are worth a
// flush of their own, and else wait for the flush in flight.
func TestAllTakesALane(t *testing.T) {
	for _, c := range []struct {
		why      string
		inFlight bool // a request of hash 0 is in flight before
		hash     uint64
		in       []int
		atOnce   bool // a lane takes them while the first request is in flight
	}{
		{"nothing is in flight, so that nobody else takes them", false, 0, []int{1}, true},
		{"they are MinBatch, and no request of their hash is in flight", true, 1, []int{1, 2}, true},
		{"they are fewer than MinBatch, and the lane in flight takes them later", true, 1, []int{1}, false},
		{"a request of their hash is in flight", true, 0, []int{1, 2}, false},
		{"there are none, and no lane asks Before for a connection", false, 0, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, befores := newGate(), 0
			combiner := mustNew(t, g.flush, &Options{
				Lanes: 2, MinBatch: 2, Before: func(int) error { befores++; return nil },
			})
			var first chan answer
			if c.inFlight {
				first = do(context.Background(), combiner, 7)
				batchIs(t, <-g.started, 7)
			}
			before, all := befores, make(chan []int, 1)
			go func() {
				out, _ := combiner.DoAll(context.Background(), c.hash, c.in)
				all <- out
			}()
			synctest.Wait()
			if asked := befores > before; asked != c.atOnce {
				t.Errorf("%s: a lane took them at once: %v, want %v", c.why, asked, c.atOnce)
			}
			if c.atOnce {
				batchIs(t, <-g.started, c.in...)
			}
			if c.inFlight {
				g.proceed <- struct{}{}
			}
			if !c.atOnce && c.in != nil {
				batchIs(t, <-g.started, c.in...)
			}
			if c.in != nil {
				g.proceed <- struct{}{}
			}
			if c.inFlight {
				want(t, first, 14)
			}
			if out := <-all; len(out) != len(c.in) {
				t.Errorf("%s: %d answers, want %d", c.why, len(out), len(c.in))
			}
			idle(t, combiner)
		})
	}
}
