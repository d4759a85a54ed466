package combine

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/store"
)

// TestLeaveAnswered: the context of a caller ends when its answer has come and the caller has not
// taken it yet. The caller takes it.
func TestLeaveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := mustNew(t, g.flush, nil)
		ctx, cancel := cancellable(t)
		one := do(context.Background(), c, 1)
		batchIs(t, <-g.started, 1)
		r := c.pool.Get().(*Request[int, int])
		r.In = 2
		if l, err := c.enter(ctx, r); l != nil || err != nil {
			t.Fatalf("enter: %v, %v", l, err)
		}
		g.proceed <- struct{}{}
		batchIs(t, <-g.started, 2)
		g.proceed <- struct{}{}
		synctest.Wait()
		cancel()
		if err := c.leave(ctx, r); err != nil || r.Out != 4 {
			t.Errorf("the answer is %d, %v; want 4", r.Out, err)
		}
		if len(r.done) != 0 {
			t.Error("the token stays, so the next caller with this request would leave at once")
		}
		want(t, one, 2)
		idle(t, c)
	})
}

// TestPostponedAndLeft: a caller leaves while a flush postpones its request. The request must not
// go out again, because nobody waits for its answer.
func TestPostponedAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, proceed := make(chan []int), make(chan struct{})
		c := mustNew(t, func(_ int, batch []*Request[int, int]) {
			var in []int
			for _, r := range batch {
				if in = append(in, r.In); r.In == 2 {
					r.Postpone()
				}
			}
			started <- in
			<-proceed
		}, nil)
		one := do(context.Background(), c, 1)
		batchIs(t, <-started, 1)
		ctx, cancel := cancellable(t)
		two := do(ctx, c, 2)
		synctest.Wait()
		three := do(context.Background(), c, 3)
		synctest.Wait()
		proceed <- struct{}{}
		batchIs(t, <-started, 2, 3)
		cancel()
		if a := <-two; !errors.Is(a.err, store.ErrUnknownOutcome) {
			t.Errorf("error %v, want ErrUnknownOutcome", a.err)
		}
		proceed <- struct{}{}
		want(t, one, 0)
		want(t, three, 0)
		synctest.Wait()
		select {
		case b := <-started:
			t.Errorf("%v went out again after its caller had left", b)
			proceed <- struct{}{}
		default:
		}
		idle(t, c)
	})
}

// held is a context whose AfterFunc runs when the test says so.
type held struct {
	context.Context
	f   func()
	err error
}

func (h *held) Err() error { return h.err }

func (h *held) Done() <-chan struct{} { return make(chan struct{}) }

func (h *held) AfterFunc(f func()) (stop func() bool) {
	h.f = f
	return func() bool { return false } // f has begun
}

// TestCutTooLate: the context of a caller that flushes its own request ends just when that flush is
// done. Cut would end the lane's next flush, which has the requests of others.
func TestCutTooLate(t *testing.T) {
	// On one thread, the goroutine that AfterFunc starts runs when the flush is over.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		ctx := &held{Context: context.Background()}
		var returned atomic.Bool
		c := mustNew(t, func(int, []*Request[int, int]) {
			ctx.err = context.Canceled
			ctx.f()
		}, &Options{Cut: func(int) {
			if returned.Load() {
				t.Error("Cut ran after the flush")
			}
		}})
		if _, err := c.Do(ctx, 0, 1); err != nil {
			t.Fatal(err)
		}
		returned.Store(true)
		synctest.Wait()
		idle(t, c)
	})
}
