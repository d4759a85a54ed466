package brim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// givenUp returns the State of the refusal that err is, or a zero State.
func givenUp(err error) brim.State {
	if over, ok := errors.AsType[*brim.OverLimitError](err); ok {
		return over.State
	}
	return brim.State{}
}

// asked counts the questions to a store, and fails some of them.
type asked struct {
	store.Store
	fills atomic.Int64
	fail  func(nth int64, op store.Op) error // nil: none fails

	mu   sync.Mutex
	went []float64 // the amounts that went in, in their order
}

func (a *asked) Fill(ctx context.Context, op store.Op) (store.State, error) {
	nth := a.fills.Add(1)
	if a.fail != nil {
		if err := a.fail(nth, op); err != nil {
			return store.State{}, err
		}
	}
	st, err := a.Store.Fill(ctx, op)
	if op.Mode == store.IfFits && st.Accepted {
		a.mu.Lock()
		defer a.mu.Unlock()
		if last := len(a.went) - 1; op.Amount < 0 && a.went[last] == -op.Amount {
			a.went = a.went[:last] // only the last booking can be given back
		} else {
			a.went = append(a.went, op.Amount)
		}
	}
	return st, err
}

func TestWait(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		name, why string
		ctx       context.Context
		before    float64 // units in the bucket
		held      float64
		block     time.Duration // of the bucket
		limit     brim.Limit
		n         float64
		deadline  time.Duration
		accepted  bool
		wait      time.Duration // or RetryAfter of a refusal at once
		late      time.Duration // how much longer the wait may be
		err       error
	}{
		{name: "it fits", why: "nobody waits for room that is there", before: 4, n: 6, accepted: true},
		{name: "no room", why: "it goes in when enough has leaked", before: 10, n: 4, accepted: true, wait: 4 * time.Second},
		{name: "a deadline in time", why: "", before: 10, n: 4, deadline: 4100 * time.Millisecond, accepted: true, wait: 4 * time.Second},
		{name: "a deadline too early", why: "a wait in vain must not begin", before: 10, n: 4, deadline: 3900 * time.Millisecond, wait: 4 * time.Second, err: brim.ErrOverLimit},
		{name: "larger than the bucket", why: "no wait helps", n: 11, wait: brim.Never, err: brim.ErrOverLimit},
		{name: "no leak", why: "no wait helps", before: 10, n: 1, limit: brim.Limit{Capacity: 10}, wait: brim.Never, err: brim.ErrOverLimit},
		{name: "nobody", why: "no wait helps", limit: brim.Nobody, n: 1, wait: brim.Never, err: brim.ErrOverLimit},
		{name: "nobody, nothing", why: "0 units always fit", limit: brim.Nobody, accepted: true},
		{name: "unlimited", why: "everything fits at once", limit: brim.Unlimited, before: 10, n: 1e15, accepted: true},
		{name: "no capacity", why: "no wait helps", limit: brim.Limit{LeakRate: 1}, n: 1, wait: brim.Never, err: brim.ErrOverLimit},
		{name: "nothing", why: "0 units always fit", before: 10, n: 0, accepted: true},
		{name: "blocked", why: "a block is a wait like any other", block: 7 * time.Second, n: 1, accepted: true, wait: 7 * time.Second, late: time.Second / 4},
		{name: "blocked beyond the deadline", why: "a wait in vain must not begin", block: 7 * time.Second, n: 1, deadline: 6 * time.Second, wait: 7 * time.Second, err: brim.ErrOverLimit},
		{name: "held units beside it", why: "the turn comes when it fits beside them", held: 4, before: 6, n: 6, accepted: true, wait: 6 * time.Second},
		{name: "held units in its place", why: "no leak makes room for it", held: 5, before: 5, n: 6, wait: brim.Never, err: brim.ErrOverLimit},
		{name: "longer than MaxWait", why: "nobody waits for ever without wanting to", limit: brim.Limit{Capacity: 10, LeakRate: 1.0 / 1200}, before: 10, n: 4, wait: 80 * time.Minute, err: brim.ErrOverLimit},
		{name: "as long as MaxWait", why: "the end of MaxWait is in time", limit: brim.Limit{Capacity: 10, LeakRate: 1.0 / 1024}, before: 10, n: 3.515625, accepted: true, wait: time.Hour},
		{name: "negative", why: "bad arguments wait for nothing", before: 10, n: -1, err: brim.ErrInvalidAmount},
		{name: "an ended context", why: "it must not ask", ctx: ended, n: 1, err: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A penalty would make Wait wait for its own block.
				lim := brim.New(inMemory(t), &brim.Options{Prefix: "p:"}).WithPenalty(time.Hour)
				if c.limit == (brim.Limit{}) {
					c.limit = tens
				}
				b := c.limit.For("b")
				must(t)(lim.TryFillup(t.Context(), b, c.before))
				must(t)(lim.Hold(t.Context(), b, c.held))
				if c.block > 0 {
					must(t)(lim.Block(t.Context(), b.Key, c.block))
				}
				ctx := c.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				if c.deadline > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, c.deadline)
					defer stop()
				}
				start := time.Now()
				st, err := lim.Wait(ctx, b, c.n)
				took := time.Since(start)
				if !errors.Is(err, c.err) || st.Accepted != c.accepted {
					t.Fatalf("accepted %v, %v; want %v, %v: %s", st.Accepted, err, c.accepted, c.err, c.why)
				}
				if !c.accepted {
					if retry := givenUp(err).RetryAfter; took != 0 || retry != c.wait {
						t.Errorf("RetryAfter %v, after %v; want %v at once: %s", retry, took, c.wait, c.why)
					}
					return
				}
				if took < c.wait || took > c.wait+c.late || st.RetryAfter != 0 {
					t.Errorf("waited for %v; want %v and up to %v more: %s", took, c.wait, c.late, c.why)
				}
			})
		})
	}
	if _, err := brim.New(nil, nil).Wait(t.Context(), tens.For("b"), 1); !errors.Is(err, brim.ErrClosed) {
		t.Errorf("without a store: %v; want %v", err, brim.ErrClosed)
	}
}

// TestWaitInLine starts callers one after another, of whom some give up. The others must book in
// the order in which they came, whatever their amounts, none later than the bucket asks for, and
// the line must not ask the store all the time.
func TestWaitInLine(t *testing.T) {
	const callers = 200
	for _, share := range []float64{0, 0.1, 0.5, 0.9} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			for round := range uint64(10) {
				rng := rand.New(rand.NewPCG(round, 1))
				synctest.Test(t, func(t *testing.T) {
					s := &asked{Store: inMemory(t)}
					lim := brim.New(s, nil)
					b := tens.For("b")
					must(t)(lim.TryFillup(t.Context(), b, 10))
					var mu sync.Mutex
					in := []float64{10} // the amounts of the callers whose Wait ended well
					var all sync.WaitGroup
					units, begin := 0.0, time.Now()
					amounts := []float64{10}
					for range callers {
						n := 1 + 9*rng.Float64()
						amounts = append(amounts, n)
						ctx, cancel := context.WithCancel(t.Context())
						var leaves time.Time
						if rng.Float64() < share {
							after := time.Duration(rng.Int64N(int64(10 * time.Minute)))
							leaves = time.Now().Add(after)
							time.AfterFunc(after, cancel)
						}
						all.Go(func() {
							defer cancel()
							st, err := lim.Wait(ctx, b, n)
							if err != nil {
								if !errors.Is(err, context.Canceled) || !time.Now().Equal(leaves) {
									t.Errorf("%v, %v after its context ended", err, time.Since(leaves))
								}
								return
							}
							mu.Lock()
							defer mu.Unlock()
							in = append(in, n)
							units += n
							if !st.Accepted || time.Since(begin).Seconds() < units-1e-3 {
								t.Errorf("accepted %v; %v units in %v", st.Accepted, units, time.Since(begin))
							}
						})
						synctest.Wait()
						time.Sleep(time.Millisecond)
					}
					all.Wait()
					// Waits may end at one moment, so the order is that of the bookings. Callers
					// that left after others had booked behind them are among these.
					place := func(n float64) int { return slices.Index(amounts, n) }
					if !slices.IsSortedFunc(s.went, func(a, b float64) int { return place(a) - place(b) }) {
						t.Errorf("the callers booked in the order %v; want %v", s.went, amounts)
					}
					for _, n := range in {
						if !slices.Contains(s.went, n) {
							t.Errorf("%v units had a turn and are not among the bookings %v", n, s.went)
						}
					}
					// With everybody on time the last goes in after as many seconds as there are
					// units.
					if most := units + 1e-3; share == 0 && (len(in) != 1+callers || time.Since(begin).Seconds() > most) {
						t.Errorf("%d callers with %v units took %v", len(in)-1, units, time.Since(begin))
					}
					// A caller asks when it comes, once or twice at the front, and gives back.
					if asked := s.fills.Load(); asked > 4*callers {
						t.Errorf("%d callers asked %d times", callers, asked)
					}
				})
			}
		})
	}
}

// TestWaitBehindOthers sees that a newcomer with a deadline counts the units in front of it, and is
// refused at once if it would be too late behind them.
func TestWaitBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(inMemory(t), nil)
		b := tens.For("b")
		must(t)(lim.TryFillup(t.Context(), b, 8))
		var all sync.WaitGroup
		for _, n := range []float64{7, 3} { // they fit after 5 and 8 seconds
			all.Go(func() { must(t)(lim.Wait(t.Context(), b, n)) })
			synctest.Wait()
		}
		for _, c := range []struct {
			n        float64
			deadline time.Duration
			retry    time.Duration // 0: it waits
		}{
			{n: 1, deadline: 8900 * time.Millisecond, retry: 9 * time.Second}, // alone it would fit now
			{n: 4, deadline: 11900 * time.Millisecond, retry: 12 * time.Second},
			{n: 11, deadline: time.Hour, retry: brim.Never},
			{n: 4, deadline: 13300 * time.Millisecond},
		} {
			ctx, stop := context.WithTimeout(t.Context(), c.deadline)
			defer stop()
			begin := time.Now()
			st, err := lim.Wait(ctx, b, c.n)
			if (err == nil) != (c.retry == 0) || st.Accepted != (c.retry == 0) || givenUp(err).RetryAfter != c.retry {
				t.Errorf("%v units within %v: accepted %v, %v; want RetryAfter %v", c.n, c.deadline, st.Accepted, err, c.retry)
			}
			if took := time.Since(begin); (took == 0) != (c.retry > 0) {
				t.Errorf("%v units within %v took %v", c.n, c.deadline, took)
			}
		}
		all.Wait()
	})
}

// TestNewcomerOvertakesNobody makes room for everybody in a line. A newcomer goes in behind them
// all the same.
func TestNewcomerOvertakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asked{Store: inMemory(t)}
		lim := brim.New(s, nil)
		b := tens.For("b")
		must(t)(lim.TryFillup(t.Context(), b, 10))
		var all sync.WaitGroup
		for _, n := range []float64{5, 2, 1} {
			if n == 1 {
				noError(t, lim.Reset(t.Context(), b.Key))
			}
			all.Go(func() { must(t)(lim.Wait(t.Context(), b, n)) })
			synctest.Wait()
		}
		all.Wait()
		if !slices.Equal(s.went, []float64{10, 5, 2, 1}) {
			t.Errorf("the amounts went in as %v, one after another", s.went)
		}
	})
}

// TestWaitNeverOverAdmits lets callers of two Limiters over one store, which know nothing of each
// other, wait for many keys. No bucket takes more than it has room for, and nobody waits for ever.
func TestWaitNeverOverAdmits(t *testing.T) {
	const callers, rounds, keys = 40, 25, 3
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		lims := []*brim.Limiter{brim.New(s, nil), brim.New(s, nil)}
		begin := time.Now()
		var mu sync.Mutex
		var units [keys]float64
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 2))
				for range rounds {
					k, n := rng.IntN(keys), 10*rng.Float64()
					st, err := lims[i%2].Wait(t.Context(), tens.For(fmt.Sprint("key ", k)), n)
					if err != nil || !st.Accepted {
						t.Errorf("accepted %v, %v", st.Accepted, err)
						return
					}
					mu.Lock()
					units[k] += n
					if room := tens.Capacity + tens.LeakRate*time.Since(begin).Seconds(); units[k] > room+1e-3 {
						t.Errorf("%v units in %v; there is room for %v", units[k], time.Since(begin), room)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	})
}

// TestWaitOverFailingStore sees that an error or a panic of the store reaches the caller whose
// question failed and no other, and that the line moves on.
func TestWaitOverFailingStore(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var failing atomic.Bool
			s := &asked{Store: inMemory(t), fail: func(nth int64, op store.Op) error {
				fails := failing.Load() && op.Mode == store.IfFits && nth%3 == 0 || op.Amount == 7 && op.Mode == store.Ask
				switch {
				case fails && panics:
					panic(store.ErrUnavailable)
				case fails:
					return store.ErrUnavailable
				}
				return nil
			}}
			lim := brim.New(s, nil)
			b := tens.For("b")
			must(t)(lim.TryFillup(t.Context(), b, 10))
			failing.Store(true)
			wait := func(n float64) (st brim.State, err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				return lim.Wait(t.Context(), b, n)
			}
			var accepted, failed atomic.Int64
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					switch st, err := wait(1); {
					case err == nil && st.Accepted:
						accepted.Add(1)
					case errors.Is(err, brim.ErrUnavailable):
						failed.Add(1)
					default:
						t.Errorf("accepted %v, %v", st.Accepted, err)
					}
				})
				synctest.Wait()
			}
			if st, err := wait(7); !errors.Is(err, brim.ErrUnavailable) || st.Accepted {
				t.Errorf("the question of a newcomer fails: accepted %v, %v", st.Accepted, err)
			}
			all.Wait()
			if accepted.Load() == 0 || failed.Load() == 0 || accepted.Load()+failed.Load() != 60 {
				t.Errorf("%d accepted, %d failed of 60", accepted.Load(), failed.Load())
			}
			failing.Store(false)
			if st := must(t)(wait(1)); !st.Accepted {
				t.Error("the line stands still after failures")
			}
		})
	}
}

// TestWaitAcrossProcesses lets four Limiters over one store wait without end, three for small
// amounts and one for large ones. Each gets as many turns as the others, and waits no longer.
func TestWaitAcrossProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{inMemory(t), time.Millisecond, time.Millisecond}
		b := brim.Limit{Capacity: 50_000, LeakRate: 2_000}.For("rows")
		must(t)(brim.New(s, nil).TryFillup(t.Context(), b, 50_000))
		amounts := []float64{100, 100, 100, 5_000}
		var turns [4]int
		var longest [4]time.Duration
		begin, end := time.Now(), 10*time.Minute
		var all sync.WaitGroup
		for i, n := range amounts {
			all.Go(func() {
				for lim := brim.New(s, nil); time.Since(begin) < end; turns[i]++ {
					asked := time.Now()
					must(t)(lim.Wait(t.Context(), b, n))
					longest[i] = max(longest[i], time.Since(asked))
				}
			})
		}
		all.Wait()
		units := 0.0
		for i, n := range amounts {
			units += n * float64(turns[i])
			if turns[i] < turns[3]*4/5 || turns[i] > turns[3]*6/5 || longest[i] > 4*time.Second {
				t.Errorf("process %d had %d turns of %v units and waited for up to %v; the one of 5,000 had %d turns",
					i, turns[i], n, longest[i], turns[3])
			}
		}
		if want := b.LeakRate * time.Since(begin).Seconds(); units < 0.98*want || units > want+b.Capacity {
			t.Errorf("%v units went through in %v; want about %v", units, time.Since(begin), want)
		}
	})
}

// dying fails all calls once it is dead.
type dying struct {
	store.Store
	dead atomic.Bool
}

func (d *dying) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if d.dead.Load() {
		return store.State{}, store.ErrUnavailable
	}
	return d.Store.Fill(ctx, op)
}

// TestLeaversShutNobodyOut lets a crowd leave at once, as it happens or by the end of its process,
// which gives nothing back. The key is free after a second and the time of the last booking.
func TestLeaversShutNobodyOut(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, n := range []float64{1, 30} {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				theirs := &dying{Store: s}
				crowd, other := brim.New(theirs, &brim.Options{MaxWait: brim.Never}), brim.New(s, nil)
				b := brim.Limit{Capacity: 50, LeakRate: 10}.For("b")
				must(t)(other.TryFillup(t.Context(), b, 50))
				ctx, leave := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range 5000 {
					all.Go(func() {
						if _, err := crowd.Wait(ctx, b, n); err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
				}
				time.Sleep(20 * time.Second)
				theirs.dead.Store(killed)
				leave()
				all.Wait()
				left := time.Now()
				must(t)(other.Wait(t.Context(), b, 1))
				most := time.Second + time.Duration((n+1)/b.LeakRate*float64(time.Second)) + time.Microsecond
				if took := time.Since(left); took > most {
					t.Errorf("killed %v, %v units each: the key was shut for %v; want %v at most", killed, n, took, most)
				}
			})
		}
	}
}

// TestGivenBackWakesLine sees that a caller in the line finds at once the room of one that leaves.
func TestGivenBackWakesLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(inMemory(t), nil)
		b := tens.For("b")
		must(t)(lim.TryFillup(t.Context(), b, 10))
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := lim.Wait(ctx, b, 9); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		all.Go(func() {
			if must(t)(lim.Wait(t.Context(), b, 1)); time.Since(begin) != 2*time.Second {
				t.Errorf("the next caller went ahead after %v; want 2s, when the one before it left", time.Since(begin))
			}
		})
		time.Sleep(2 * time.Second)
		leave()
		all.Wait()
	})
}

// TestGivenTurnStays changes the bucket of a caller that has booked, and the rate.
func TestGivenTurnStays(t *testing.T) {
	b := tens.For("b")
	for name, change := range map[string]func(ctx context.Context, lim *brim.Limiter) error{
		"a lower rate": func(ctx context.Context, lim *brim.Limiter) error {
			_, err := lim.TryFillup(ctx, brim.Limit{Capacity: 10, LeakRate: 0.01}.For("b"), 1)
			return err
		},
		"a drain": func(ctx context.Context, lim *brim.Limiter) error { _, err := lim.Drain(ctx, b, 8); return err },
		"a reset": func(ctx context.Context, lim *brim.Limiter) error { return lim.Reset(ctx, "b") },
		"a block": func(ctx context.Context, lim *brim.Limiter) error {
			_, err := lim.Block(ctx, "b", time.Hour)
			return err
		},
		"a fillup": func(ctx context.Context, lim *brim.Limiter) error {
			_, err := lim.Fillup(ctx, brim.Limit{Capacity: 100, LeakRate: 1}.For("b"), 50)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			lim := brim.New(inMemory(t), nil)
			must(t)(lim.TryFillup(t.Context(), b, 10))
			var all sync.WaitGroup
			begin := time.Now()
			all.Go(func() {
				if must(t)(lim.Wait(t.Context(), b, 5)); time.Since(begin) != 5*time.Second {
					t.Errorf("after %s: the turn came after %v; want 5s", name, time.Since(begin))
				}
			})
			time.Sleep(time.Second)
			noError(t, change(t.Context(), lim))
			all.Wait()
		})
	}
}

// TestNobodyOvertakesBookings sees, on each backend, that fills find the units of a caller that
// waits.
func TestNobodyOvertakesBookings(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		lim, other := brim.New(s, &brim.Options{Prefix: "p:"}), brim.New(s, &brim.Options{Prefix: "p:"})
		b, free := brim.Limit{Capacity: 1000, LeakRate: 1}.For("b"), tens.For("free")
		must(t)(lim.TryFillup(t.Context(), b, 1000))
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := lim.Wait(ctx, b, 700)
			left <- err
		}()
		for must(t)(other.State(t.Context(), b)).Level < 1700 {
			time.Sleep(time.Millisecond)
		}
		clock.Advance(500 * time.Second)
		check := func(why string, n float64, want time.Duration) {
			t.Helper()
			able := must(t)(lim.AbleToAccept(t.Context(), b, n))
			st := must(t)(lim.TryFillup(t.Context(), b, n))
			held := must(t)(other.Hold(t.Context(), b, n))
			states, err := other.TryFillupAll(t.Context(), brim.Fill{Bucket: b, Amount: n}, brim.Fill{Bucket: free, Amount: 1})
			noError(t, err)
			for _, st := range []brim.State{able, st, held, states[0]} {
				if st.Accepted || st.RetryAfter != want {
					t.Errorf("%s, %v units: %+v; want RetryAfter %v", why, n, st, want)
				}
			}
		}
		check("a small amount", 1, 201*time.Second)
		check("it would fit without the booking", 500, 700*time.Second)
		check("it can never fit", 1001, brim.Never)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if st := must(t)(other.TryFillup(t.Context(), b, 500)); !st.Accepted || st.Level != 1000 {
			t.Errorf("after the caller left: %+v", st)
		}
	})
}

// TestWaitWithOtherLimits lets callers wait for one key with limits that differ, as during a change
// of configuration. Each has its turn by its own limit.
func TestWaitWithOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := brim.New(inMemory(t), nil)
		must(t)(lim.TryFillup(t.Context(), tens.For("b"), 10))
		var all sync.WaitGroup
		for i, c := range []struct {
			limit brim.Limit
			n     float64
		}{
			{tens, 8},
			{brim.Limit{Capacity: 5, LeakRate: 2}, 5},
			{brim.Limit{Capacity: 20, LeakRate: 1}, 15},
			{tens, 1},
			{brim.Limit{Capacity: 100}, 1},
		} {
			all.Go(func() {
				if st, err := lim.Wait(t.Context(), c.limit.For("b"), c.n); err != nil || st.Capacity != c.limit.Capacity {
					t.Errorf("caller %d: %+v, %v", i, st, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

// TestWaitOverWrappers sees that bookings pass through the wrappers of package local. During an
// outage a caller that must wait gets the error of the store.
func TestWaitOverWrappers(t *testing.T) {
	for name, wrap := range map[string]func(s store.Store) (store.Store, error){
		"refusals": func(s store.Store) (store.Store, error) { return local.Refusals(s, nil) },
		"leases":   func(s store.Store) (store.Store, error) { return local.Leases(s, nil) },
		"fallback": func(s store.Store) (store.Store, error) { return local.Fallback(s, inMemory(t), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs := &dying{Store: inMemory(t)}
				s, err := wrap(theirs)
				noError(t, err)
				lim := brim.New(s, nil)
				b := tens.For("b")
				must(t)(lim.TryFillup(t.Context(), b, 10))
				var all sync.WaitGroup
				begin := time.Now()
				for _, n := range []float64{5, 1, 2} {
					want := map[float64]time.Duration{5: 5 * time.Second, 1: 6 * time.Second, 2: 8 * time.Second}[n]
					all.Go(func() {
						if must(t)(lim.Wait(t.Context(), b, n)); time.Since(begin).Round(time.Millisecond) != want {
							t.Errorf("%v units went ahead after %v; want %v", n, time.Since(begin), want)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				theirs.dead.Store(true)
				_, _ = lim.Wait(t.Context(), b, 10) // into the standby store, if there is one
				if _, err := lim.Wait(t.Context(), b, 10); !errors.Is(err, brim.ErrUnavailable) {
					t.Errorf("during an outage: %v; want %v", err, brim.ErrUnavailable)
				}
				noError(t, s.Close())
			})
		})
	}
}
