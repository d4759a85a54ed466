package combine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a flush function that a test lets through batch by batch. It answers a request with
// twice its value.
type gate struct {
	started chan []int    // the batch of a flush, when it starts
	proceed chan struct{} // lets it end
}

func newGate() *gate { return &gate{started: make(chan []int), proceed: make(chan struct{})} }

func (g *gate) flush(_ int, batch []*Request[int, int]) {
	in := make([]int, len(batch))
	for i, r := range batch {
		in[i] = r.In
	}
	g.started <- in
	<-g.proceed
	for _, r := range batch {
		r.Out = 2 * r.In
	}
}

func mustNew(t testing.TB, flush func(int, []*Request[int, int]), o *Options) *Combiner[int, int] {
	t.Helper()
	c, err := New(flush, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// idle closes c and checks that nothing is left of its requests.
func idle(t *testing.T, c *Combiner[int, int]) {
	t.Helper()
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) != c.lanes || c.queue != (list[int, int]{}) || c.taking != 0 || c.free != 0 {
		t.Errorf("after all: %d of %d lanes are idle, the queue is %+v, %d lanes are about to take it, %d requests are free",
			len(c.idle), c.lanes, c.queue, c.taking, c.free)
	}
	for slot, n := range c.busy {
		if n != 0 {
			t.Errorf("after all: %d requests of slot %d are in flight", n, slot)
		}
	}
}

type answer struct {
	out int
	err error
}

func do(ctx context.Context, c *Combiner[int, int], in int) chan answer {
	ch := make(chan answer, 1)
	go func() {
		out, err := c.Do(ctx, 0, in)
		ch <- answer{out, err}
	}()
	return ch
}

func cancellable(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

func want(t *testing.T, ch chan answer, out int) {
	t.Helper()
	if a := <-ch; a.err != nil || a.out != out {
		t.Errorf("answer %d, %v; want %d", a.out, a.err, out)
	}
}

func batchIs(t *testing.T, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("batch %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("batch %v, want %v", got, want)
		}
	}
}

// TestQueuesBehindTheFlushInFlight: requests wait for the flush in flight, and then go out
// together, at most MaxBatch of them in a flush.
func TestQueuesBehindTheFlushInFlight(t *testing.T) {
	for name, mayLead := range map[string]bool{"a caller that leads": true, "a caller that can be called away": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				c := mustNew(t, g.flush, &Options{MaxBatch: 2})
				ctx := context.Background()
				if !mayLead {
					ctx, _ = cancellable(t)
				}
				chs := []chan answer{do(ctx, c, 0)}
				batchIs(t, <-g.started, 0)
				for i := 1; i <= 5; i++ {
					chs = append(chs, do(ctx, c, i))
					synctest.Wait()
				}
				for _, b := range [][]int{{1, 2}, {3, 4}, {5}} {
					g.proceed <- struct{}{}
					batchIs(t, <-g.started, b...)
				}
				g.proceed <- struct{}{}
				for i, ch := range chs {
					want(t, ch, 2*i)
				}
				idle(t, c)
			})
		})
	}
}

func TestContexts(t *testing.T) {
	t.Run("done before: nothing is sent", func(t *testing.T) {
		// With Cut, the caller would flush its request itself, and could not take it back.
		c := mustNew(t, func(int, []*Request[int, int]) { t.Error("flushed") }, &Options{Cut: func(int) {}})
		defer idle(t, c)
		ctx, cancel := cancellable(t)
		cancel()
		if _, err := c.Do(ctx, 0, 1); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("done while queued: taken back, its neighbours go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			c := mustNew(t, g.flush, nil)
			one := do(context.Background(), c, 1)
			batchIs(t, <-g.started, 1)
			var chs [5]chan answer
			var cancels [5]context.CancelFunc
			for i := range chs {
				ctx, cancel := cancellable(t)
				chs[i], cancels[i] = do(ctx, c, 10+i), cancel
				synctest.Wait()
			}
			for _, i := range []int{2, 0, 4} { // from the middle, the front and the back of the queue
				cancels[i]()
				if a := <-chs[i]; a.err != context.Canceled {
					t.Errorf("error %v, want context.Canceled alone", a.err)
				}
			}
			g.proceed <- struct{}{}
			batchIs(t, <-g.started, 11, 13)
			g.proceed <- struct{}{}
			want(t, one, 2)
			want(t, chs[1], 22)
			want(t, chs[3], 26)
			idle(t, c)
		})
	})
	t.Run("done in flight: unknown at once, its neighbours go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			c := mustNew(t, g.flush, nil)
			one := do(context.Background(), c, 1)
			batchIs(t, <-g.started, 1)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			two, three := do(ctx, c, 2), do(context.Background(), c, 3)
			synctest.Wait()
			g.proceed <- struct{}{}
			<-g.started
			a := <-two
			if !errors.Is(a.err, store.ErrUnknownOutcome) || !errors.Is(a.err, context.DeadlineExceeded) {
				t.Errorf("error %v, want both ErrUnknownOutcome and DeadlineExceeded", a.err)
			}
			g.proceed <- struct{}{}
			want(t, one, 2)
			want(t, three, 6)
			idle(t, c)
		})
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := mustNew(t, g.flush, &Options{Lanes: 2})
		one := do(context.Background(), c, 1)
		<-g.started
		two := do(context.Background(), c, 2)
		synctest.Wait()
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		for _, hash := range []uint64{0, 1} {
			if _, err := c.Do(context.Background(), hash, 3); !errors.Is(err, store.ErrClosed) {
				t.Errorf("while closing: error %v, want ErrClosed", err)
			}
		}
		select {
		case <-closed:
			t.Error("Close returned while a flush was in flight")
		default:
		}
		g.proceed <- struct{}{}
		batchIs(t, <-g.started, 2)
		g.proceed <- struct{}{}
		want(t, one, 2)
		want(t, two, 4)
		<-closed
		idle(t, c)
	})
}

func TestFlushThatDoesNotReturn(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		says := map[string]string{"panic": "the flush panicked: boom", "goexit": "the flush did not return"}[name]
		for who, background := range map[string]bool{"led": true, "run": false} {
			t.Run(name+" "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					started, proceed := make(chan struct{}), make(chan struct{})
					c := mustNew(t, func(_ int, batch []*Request[int, int]) {
						started <- struct{}{}
						<-proceed
						if batch[0].In < 0 {
							fail()
						}
					}, nil)
					ctx := context.Background()
					if !background {
						ctx, _ = cancellable(t)
					}
					bad := do(ctx, c, -1)
					<-started
					worse := do(ctx, c, -2)
					synctest.Wait()
					proceed <- struct{}{}
					if name == "panic" || !background { // Goexit ends the goroutine of a caller that leads
						if a := <-bad; !errors.Is(a.err, store.ErrUnknownOutcome) || !strings.Contains(a.err.Error(), says) {
							t.Errorf("error %v, want ErrUnknownOutcome, and that %q", a.err, says)
						}
					}
					<-started
					good := do(ctx, c, 0)
					synctest.Wait()
					proceed <- struct{}{}
					if a := <-worse; !errors.Is(a.err, store.ErrUnknownOutcome) {
						t.Errorf("error %v, want ErrUnknownOutcome", a.err)
					}
					<-started
					proceed <- struct{}{}
					want(t, good, 0)
					idle(t, c)
				})
			})
		}
	}
}

func TestPostpone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, proceed := make(chan []int), make(chan struct{})
		c := mustNew(t, func(_ int, batch []*Request[int, int]) {
			var in []int
			for _, r := range batch {
				in = append(in, r.In)
			}
			started <- in
			<-proceed
			for i, r := range batch {
				if r.In >= 100 || (i > 0 && r.In < 10) {
					r.Postpone()
				}
			}
		}, nil)
		ctx, cancel := cancellable(t)
		one := do(ctx, c, 1)
		<-started
		var chs []chan answer
		for _, in := range []int{10, 2, 3} {
			chs = append(chs, do(context.Background(), c, in))
			synctest.Wait()
		}
		proceed <- struct{}{}
		want(t, one, 0)
		batchIs(t, <-started, 10, 2, 3)
		late := do(ctx, c, 20)
		synctest.Wait()
		proceed <- struct{}{}
		want(t, chs[0], 0)
		batchIs(t, <-started, 2, 3, 20) // postponed requests come first, in their order
		proceed <- struct{}{}
		want(t, chs[1], 0)
		want(t, late, 0)
		batchIs(t, <-started, 3)
		never := do(context.Background(), c, 100)
		synctest.Wait()
		proceed <- struct{}{}
		want(t, chs[2], 0)
		batchIs(t, <-started, 100)
		proceed <- struct{}{}
		if a := <-never; !errors.Is(a.err, store.ErrUnavailable) {
			t.Errorf("a batch postponed as a whole: error %v, want ErrUnavailable", a.err)
		}
		cancel()
		idle(t, c)
	})
}

func TestBadOptions(t *testing.T) {
	flush := func(int, []*Request[int, int]) {}
	if _, err := New[int, int](nil, nil); err == nil {
		t.Error("no flush function: no error")
	}
	for _, o := range []*Options{{Lanes: -1}, {MaxBatch: -1}} {
		if _, err := New(flush, o); err == nil {
			t.Errorf("%+v: no error", *o)
		}
	}
}
