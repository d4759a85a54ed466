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
		settled(t, c)
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
		settled(t, c)
		if _, errs := c.DoAll(context.Background(), 0, []int{5}); !errors.Is(errs[0], store.ErrClosed) {
			t.Errorf("after Close: %v; want ErrClosed", errs)
		}
	})
}
