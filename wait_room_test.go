package brim_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/store"
)

// TestWaitIsNotStarved lets one caller wait for most of a bucket, against a flood of small amounts.
// The caller gets in as soon as the room for it has leaked. Once it is in, the flood gets the room.
func TestWaitIsNotStarved(t *testing.T) {
	b, other := tens.For("b"), brim.Limit{Capacity: 1e6}.For("other")
	for _, c := range []struct {
		name string
		then int // units that go in once the caller is in, at least
		fill func(ctx context.Context, lim *brim.Limiter) (brim.State, error)
	}{
		{"TryFillup", 10, func(ctx context.Context, lim *brim.Limiter) (brim.State, error) {
			return lim.TryFillup(ctx, b, 0.5)
		}},
		{"with a penalty", 0, func(ctx context.Context, lim *brim.Limiter) (brim.State, error) {
			return lim.WithPenalty(time.Hour).TryFillup(ctx, b, 0.5)
		}},
		{"TryFillupAll", 10, func(ctx context.Context, lim *brim.Limiter) (brim.State, error) {
			states, err := lim.TryFillupAll(ctx, brim.Fill{Bucket: other, Amount: 1}, brim.Fill{Bucket: b, Amount: 0.5})
			if err != nil {
				return brim.State{}, err
			}
			if states[0].Accepted != states[1].Accepted || states[0].RetryAfter != 0 {
				t.Errorf("of the other bucket: %+v", states[0])
			}
			return states[1], nil
		}},
		{"Do", 10, func(ctx context.Context, lim *brim.Limiter) (brim.State, error) {
			err := lim.Do(ctx, b, 0.5, func(context.Context) error { return nil })
			if errors.Is(err, brim.ErrOverLimit) {
				return givenUp(err), nil
			}
			return brim.State{Accepted: true}, err
		}},
		{"Hold", 5, func(ctx context.Context, lim *brim.Limiter) (brim.State, error) {
			return lim.Hold(ctx, b, 0.5)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim := brim.New(slow{inMemory(t), 3 * time.Millisecond, 3 * time.Millisecond}, &brim.Options{Prefix: "p:"})
				must(t)(lim.TryFillup(t.Context(), b, 10))
				var in atomic.Bool
				var flood sync.WaitGroup
				var accepted atomic.Int64
				ctx, stop := context.WithCancel(t.Context())
				begin := time.Now()
				flood.Go(func() {
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					_, err := lim.Wait(ctx, b, 8)
					if took := time.Since(begin); err != nil || took > 8900*time.Millisecond {
						t.Errorf("the caller waited for %v, %v; want 8 s and up to a tenth more", took, err)
					}
					in.Store(true)
				})
				time.Sleep(10 * time.Millisecond)
				for i := range 50 {
					flood.Go(func() {
						for {
							time.Sleep(time.Duration(20+i) * time.Millisecond)
							waits := !in.Load()
							st, err := c.fill(ctx, lim)
							switch {
							case ctx.Err() != nil:
								return
							case err != nil:
								t.Error(err)
								return
							case st.Accepted:
								accepted.Add(1)
							case st.RetryAfter <= 0 || waits && !st.BlockedUntil.IsZero():
								t.Errorf("a refusal beside a caller that waits: %+v", st)
							}
						}
					})
				}
				time.Sleep(5 * time.Second)
				if n := accepted.Load(); n > 0 {
					t.Errorf("%d fills went in beside the caller", n)
				}
				time.Sleep(15 * time.Second)
				if !in.Load() {
					t.Error("the caller still waits")
				}
				if n := accepted.Load() / 2; n < int64(c.then) {
					t.Errorf("the flood got %d units since nobody waits any more; want %d at least", n, c.then)
				}
				stop()
				flood.Wait()
			})
		})
	}
}

// waitFor starts a caller of Wait on a store whose clock stands still, and returns when it is in
// line: a newcomer's RetryAfter then ends after least. The function that it returns ends the wait.
func waitFor(t *testing.T, lim *brim.Limiter, b brim.Bucket, n float64, least time.Duration) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := lim.Wait(ctx, b, n)
		ended <- err
	}()
	for must(t)(lim.AbleToAccept(t.Context(), b, 1)).RetryAfter < least {
		time.Sleep(time.Millisecond)
	}
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left got %v", err)
		}
	}
}

// TestRoomBesideWaiters sees which fills leave room for callers that wait, and their answers.
func TestRoomBesideWaiters(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		ctx := t.Context()
		long := brim.Limit{Capacity: 1000, LeakRate: 1}
		b, free := long.For("b"), long.For("free")
		lim := brim.New(s, &brim.Options{Prefix: "p:"})
		must(t)(lim.TryFillup(ctx, b, 1000))
		leave700 := waitFor(t, lim, b, 700, 701*time.Second)
		leave200 := waitFor(t, lim, b, 200, 901*time.Second)
		check := func(why string, lim *brim.Limiter, b brim.Bucket, n float64, retry time.Duration) {
			t.Helper()
			able := must(t)(lim.AbleToAccept(ctx, b, n))
			st := must(t)(lim.TryFillup(ctx, b, n))
			if st.Accepted != (retry == 0) || st.RetryAfter != retry || !st.BlockedUntil.IsZero() {
				t.Errorf("%s: %v units: %+v; want RetryAfter %v", why, n, st, retry)
			}
			if able.Accepted != st.Accepted || able.RetryAfter != st.RetryAfter {
				t.Errorf("%s: AbleToAccept %+v does not agree with TryFillup %+v", why, able, st)
			}
		}
		check("in front of everybody", lim, b, 1, 901*time.Second)
		check("a shared line", lim.WithPenalty(time.Hour), b, 1, 901*time.Second)
		check("nothing takes no room", lim, b, 0, 0)
		check("it can never fit", lim, b, 1001, brim.Never)
		check("a lower capacity counts", lim, brim.Limit{Capacity: 500, LeakRate: 1}.For("b"), 100, 1500*time.Second)
		check("another key", lim, free, 1, 0)
		check("another prefix", brim.New(s, &brim.Options{Prefix: "q:"}), b, 1, 0)

		clock.Advance(800 * time.Second)
		check("there is room, but it is not for newcomers", lim, b, 1, 101*time.Second)
		if st := must(t)(lim.Hold(ctx, b, 1)); st.Accepted || st.RetryAfter != 101*time.Second || st.Held != 0 {
			t.Errorf("a hold: %+v", st)
		}
		states, err := lim.WithPenalty(time.Hour).TryFillupAll(ctx,
			brim.Fill{Bucket: b, Amount: 1}, brim.Fill{Bucket: free, Amount: 1}, brim.Fill{Bucket: b, Amount: 2})
		noError(t, err)
		for i, retry := range []time.Duration{103 * time.Second, 0, 103 * time.Second} {
			if st := states[i]; st.Accepted || st.RetryAfter != retry || !st.BlockedUntil.IsZero() {
				t.Errorf("of fill %d: %+v; want RetryAfter %v", i, st, retry)
			}
		}
		states, err = lim.TryFillupAll(ctx, brim.Fill{Bucket: b, Amount: 1}, brim.Fill{Bucket: b, Amount: 2, AskOnly: true})
		noError(t, err)
		for i, st := range states {
			if st.Accepted || st.RetryAfter != 103*time.Second {
				t.Errorf("of fill %d, beside one that asks: %+v; want RetryAfter 1m43s", i, st)
			}
		}
		// A process that knows of no line takes the room.
		if st := must(t)(brim.New(s, &brim.Options{Prefix: "p:"}).TryFillup(ctx, b, 20)); !st.Accepted {
			t.Errorf("another Limiter: %+v", st)
		}
		check("behind it", lim, b, 1, 121*time.Second)

		must(t)(lim.Block(ctx, b.Key, 300*time.Second))
		if st := must(t)(lim.TryFillup(ctx, b, 1)); st.Accepted || st.RetryAfter != 300*time.Second {
			t.Errorf("a block that lasts longer than the line: %+v", st)
		}
		must(t)(lim.Unblock(ctx, "b"))

		noError(t, lim.Reset(ctx, "b"))
		check("room beside the line", lim, b, 60, 0)
		if states, err = lim.TryFillupAll(ctx, brim.Fill{Bucket: b, Amount: 40}); err != nil || !states[0].Accepted {
			t.Errorf("room beside the line: %+v, %v", states, err)
		}
		check("no more room beside the line", lim, b, 1, time.Second)
		leave200()
		check("the last of the line has left", lim, b, 200, 0)
		check("the first still waits", lim, b, 1, time.Second)
		leave700()
		check("nobody waits", lim, b, 700, 0)
	})
}

// TestMaxWaiting fills the line of a key. A later caller gets the answer of TryFillup, and leaves at
// once; a place that becomes free goes to the next.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(inMemory(t), &brim.Options{MaxWaiting: 3})
		b := tens.For("b")
		must(t)(lim.TryFillup(t.Context(), b, 10))
		var all sync.WaitGroup
		waiting := func(n float64, want error) (leave func()) {
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				defer cancel()
				if _, err := lim.Wait(ctx, b, n); !errors.Is(err, want) {
					t.Errorf("%v units: %v; want %v", n, err, want)
				}
			})
			synctest.Wait()
			return cancel
		}
		refused := func(retry time.Duration) {
			t.Helper()
			begin := time.Now()
			if _, err := lim.Wait(t.Context(), b, 1); givenUp(err).RetryAfter != retry || !time.Now().Equal(begin) {
				t.Errorf("beyond the line: %v after %v; want a RetryAfter of %v at once", err, time.Since(begin), retry)
			}
		}
		waiting(2, nil)
		leave := waiting(3, context.Canceled)
		waiting(3, nil)
		refused(9 * time.Second)
		if st, err := lim.Wait(t.Context(), b, 0); err != nil || !st.Accepted {
			t.Errorf("0 units: %+v, %v", st, err)
		}
		must(t)(lim.TryFillup(t.Context(), tens.For("c"), 10))
		if _, err := lim.Wait(t.Context(), tens.For("c"), 1); err != nil { // it takes a second or a little more
			t.Errorf("another key: %v", err)
		}
		leave()
		synctest.Wait()
		waiting(1, nil)
		noError(t, lim.Reset(t.Context(), b.Key))
		if st, err := lim.Wait(t.Context(), b, 4); err != nil || !st.Accepted {
			t.Errorf("beyond the line, which leaves 4 units of room: %+v, %v", st, err)
		}
		refused(time.Second)
		all.Wait()
	})
}

// TestRoomAfterFailedWait sees that a caller whose question fails, or finds that it waits in vain,
// leaves its room to the others.
func TestRoomAfterFailedWait(t *testing.T) {
	for _, c := range []struct {
		name string
		fail error
		held float64
		want error
	}{
		{name: "the store fails", fail: store.ErrUnavailable, want: brim.ErrUnavailable},
		{name: "held units leave no room for ever", held: 4, want: brim.ErrOverLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &asked{Store: inMemory(t), fail: func(_ int64, op store.Op) error {
					if op.Amount == 7 && op.Ceiling == 0 && op.Mode == store.IfFits && !time.Now().Equal(begun) {
						return c.fail
					}
					return nil
				}}
				lim := brim.New(s, nil)
				b := tens.For("b")
				must(t)(lim.TryFillup(t.Context(), b, 10-c.held))
				var all sync.WaitGroup
				all.Go(func() {
					if _, err := lim.Wait(t.Context(), b, 7); !errors.Is(err, c.want) {
						t.Errorf("%v; want %v", err, c.want)
					}
				})
				synctest.Wait()
				must(t)(brim.New(s, nil).Hold(t.Context(), b, c.held)) // by somebody who knows of no line
				time.Sleep(3 * time.Second)
				if st := must(t)(lim.TryFillup(t.Context(), b, 1)); st.Accepted {
					t.Errorf("%+v; the caller still waits", st)
				}
				all.Wait()
				if st := must(t)(lim.TryFillup(t.Context(), b, 1)); !st.Accepted {
					t.Errorf("%+v; nobody waits any more", st)
				}
			})
		})
	}
}

// begun is the time at which the clock of a synctest bubble begins.
var begun = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// TestWaitWithOtherLimits lets callers wait for one key with limits that differ, as during a change
// of configuration. Each goes in by its own limit.
func TestWaitWithOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(inMemory(t), nil)
		must(t)(lim.TryFillup(t.Context(), tens.For("b"), 10))
		var all sync.WaitGroup
		for i, c := range []struct {
			limit brim.Limit
			n     float64
		}{
			{tens, 8}, {brim.Limit{Capacity: 5, LeakRate: 2}, 5}, {brim.Limit{Capacity: 20, LeakRate: 1}, 15}, {tens, 1},
		} {
			all.Go(func() {
				if st, err := lim.Wait(t.Context(), c.limit.For("b"), c.n); err != nil || st.Capacity != c.limit.Capacity || st.Level > c.limit.Capacity {
					t.Errorf("caller %d: %+v, %v", i, st, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}
