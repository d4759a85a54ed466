package combine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

func TestBefore(t *testing.T) {
	t.Run("callers can leave while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			waiting, proceed := make(chan struct{}), make(chan struct{})
			after := 0
			c := mustNew(t, func(_ int, batch []*Request[int, int]) {
				for _, r := range batch {
					r.Out = 2 * r.In
				}
			}, &Options{
				Before: func(int) error { waiting <- struct{}{}; <-proceed; return nil },
				After:  func(int) { after++ },
			})
			ctx, cancel := cancellable(t)
			one := do(ctx, c, 1)
			<-waiting
			two := do(context.Background(), c, 2)
			synctest.Wait()
			cancel()
			if a := <-one; a.err != context.Canceled {
				t.Errorf("error %v, want context.Canceled alone: nothing was sent", a.err)
			}
			close(proceed)
			want(t, two, 4)
			idle(t, c)
			if after != 1 {
				t.Errorf("After ran %d times for one Before", after)
			}
		})
	})
	for name, fails := range map[string]error{
		"nobody is left":               nil,
		"it fails when nobody is left": store.ErrUnavailable,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waiting, proceed := make(chan struct{}), make(chan struct{})
				after := 0
				c := mustNew(t, func(int, []*Request[int, int]) { t.Error("an empty batch was flushed") }, &Options{
					Before: func(int) error { waiting <- struct{}{}; <-proceed; return fails },
					After:  func(int) { after++ },
				})
				ctx, cancel := cancellable(t)
				one := do(ctx, c, 1)
				<-waiting
				cancel()
				<-one
				close(proceed)
				idle(t, c)
				if after != 1 && fails == nil || after != 0 && fails != nil {
					t.Errorf("After ran %d times for one Before, which returned %v", after, fails)
				}
			})
		})
	}
	for name, ctx := range map[string]func(*testing.T) context.Context{
		"its error answers who leads": func(*testing.T) context.Context { return context.Background() },
		"its error answers who waits": func(t *testing.T) context.Context { ctx, _ := cancellable(t); return ctx },
	} {
		t.Run(name, func(t *testing.T) {
			failed := errors.New("no connection")
			c := mustNew(t, func(int, []*Request[int, int]) { t.Error("flushed") }, &Options{
				Before: func(int) error { return failed },
				After:  func(int) { t.Error("After ran for a Before that failed") },
			})
			defer c.Close()
			if _, err := c.Do(ctx(t), 0, 1); !errors.Is(err, failed) {
				t.Errorf("error %v, want that of Before", err)
			}
		})
	}
}

// doHash is do with a hash.
func doHash(c *Combiner[int, int], hash uint64, in int) chan answer {
	ch := make(chan answer, 1)
	go func() {
		out, err := c.Do(context.Background(), hash, in)
		ch <- answer{out, err}
	}()
	return ch
}

func TestLanes(t *testing.T) {
	t.Run("one hash is never in two flushes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			c := mustNew(t, g.flush, &Options{Lanes: 2})
			one := doHash(c, 7, 1)
			batchIs(t, <-g.started, 1)
			two := doHash(c, 7, 2)
			synctest.Wait()
			select {
			case b := <-g.started:
				t.Fatalf("%v is in flight beside a request of its hash", b)
			default:
			}
			three := doHash(c, 8, 3)
			batchIs(t, <-g.started, 3) // overtakes the request that must wait
			g.proceed <- struct{}{}
			g.proceed <- struct{}{}
			batchIs(t, <-g.started, 2)
			g.proceed <- struct{}{}
			want(t, one, 2)
			want(t, two, 4)
			want(t, three, 6)
			idle(t, c)
		})
	})
	t.Run("a second flush waits for its batch, and the rest for the last lane", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			c := mustNew(t, g.flush, &Options{Lanes: 2, MinBatch: 3})
			chs := []chan answer{doHash(c, 0, 0)}
			batchIs(t, <-g.started, 0)
			for i := 1; i <= 2; i++ {
				chs = append(chs, doHash(c, uint64(i), i))
				synctest.Wait()
			}
			select {
			case b := <-g.started:
				t.Fatalf("%v was sent, and is not worth a flush of its own", b)
			default:
			}
			chs = append(chs, doHash(c, 3, 3))
			batchIs(t, <-g.started, 1, 2, 3)
			chs = append(chs, doHash(c, 4, 4))
			synctest.Wait()
			g.proceed <- struct{}{} // the flush that ends first leaves the small rest to the other
			synctest.Wait()
			select {
			case b := <-g.started:
				t.Fatalf("%v was sent while a flush was in flight that can take it", b)
			default:
			}
			g.proceed <- struct{}{}
			batchIs(t, <-g.started, 4)
			g.proceed <- struct{}{}
			for i, ch := range chs {
				want(t, ch, 2*i)
			}
			idle(t, c)
		})
	})
}

// TestCut ends the context of a caller that flushes its own request. Cut ends that flush, and
// never the flush of other requests.
func TestCut(t *testing.T) {
	for _, test := range []struct {
		name   string
		before bool  // Cut ends Before, and not the flush
		fails  error // the error of the Before or flush that was cut
		plain  bool  // the caller gets the error of its context alone
	}{
		{"waiting for a connection: nothing was sent", true, store.ErrUnavailable, true},
		{"in flight, and cannot be known", false, store.ErrUnknownOutcome, false},
		{"in flight, and not applied", false, store.ErrUnavailable, true},
		{"in flight, and done all the same", false, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut, first := make(chan struct{}), true
				c := mustNew(t, func(_ int, batch []*Request[int, int]) {
					if first && !test.before {
						first = false
						<-cut
						batch[0].Err = test.fails
						return
					}
					for _, r := range batch {
						r.Out = 2 * r.In
					}
				}, &Options{
					Before: func(int) error {
						if first && test.before {
							first = false
							<-cut
							return test.fails
						}
						return nil
					},
					Cut: func(int) { close(cut) },
				})
				ctx, cancel := cancellable(t)
				one := do(ctx, c, 1)
				synctest.Wait()
				two := do(context.Background(), c, 2)
				synctest.Wait()
				cancel()
				switch a := <-one; {
				case test.fails == nil && a.err != nil:
					t.Errorf("error %v for a request that was applied", a.err)
				case test.plain && a.err != context.Canceled:
					t.Errorf("error %v, want context.Canceled alone", a.err)
				case test.fails != nil && !test.plain && (!errors.Is(a.err, store.ErrUnknownOutcome) || !errors.Is(a.err, context.Canceled)):
					t.Errorf("error %v, want both ErrUnknownOutcome and context.Canceled", a.err)
				}
				want(t, two, 4)
				idle(t, c)
			})
		})
	}
}

// TestGrace ends a caller's context while its request is in flight. The caller waits a little for
// the answer.
func TestGrace(t *testing.T) {
	for _, test := range []struct {
		name string
		took time.Duration // of the flush after the context has ended
		late bool
	}{
		{"the answer comes in time", 99 * time.Millisecond, false},
		{"the answer does not come", 101 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := mustNew(t, func(_ int, batch []*Request[int, int]) {
					time.Sleep(time.Second + test.took)
					batch[0].Out = 2 * batch[0].In
				}, &Options{Grace: 100 * time.Millisecond})
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				a := <-do(ctx, c, 1)
				unknown := errors.Is(a.err, store.ErrUnknownOutcome) && errors.Is(a.err, context.DeadlineExceeded)
				if test.late && !unknown || !test.late && (a.err != nil || a.out != 2) {
					t.Errorf("answer %d, %v", a.out, a.err)
				}
				c.Close()
			})
		})
	}
}
