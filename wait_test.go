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
		a.went = append(a.went, op.Amount)
	}
	return st, err
}

func TestWait(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		name, why string
		ctx       context.Context
		before    float64       // units in the bucket
		block     time.Duration // of the bucket
		limit     brim.Limit
		n         float64
		deadline  time.Duration
		accepted  bool
		least     time.Duration // of the wait, or RetryAfter of a refusal at once; the most is a tenth above
		err       error
	}{
		{name: "it fits", why: "nobody waits for room that is there", before: 4, n: 6, accepted: true},
		{name: "no room", why: "it goes in when enough has leaked", before: 10, n: 4, accepted: true, least: 4 * time.Second},
		{name: "a deadline in time", why: "", before: 10, n: 4, deadline: 4100 * time.Millisecond, accepted: true, least: 4 * time.Second},
		{name: "a deadline too early", why: "a wait in vain must not begin", before: 10, n: 4, deadline: 3900 * time.Millisecond, least: 4 * time.Second, err: brim.ErrOverLimit},
		{name: "larger than the bucket", why: "no wait helps", n: 11, least: brim.Never, err: brim.ErrOverLimit},
		{name: "no leak", why: "no wait helps", before: 10, n: 1, limit: brim.Limit{Capacity: 10}, least: brim.Never, err: brim.ErrOverLimit},
		{name: "nobody", why: "no wait helps", limit: brim.Nobody, n: 1, least: brim.Never, err: brim.ErrOverLimit},
		{name: "nobody, nothing", why: "0 units always fit", limit: brim.Nobody, accepted: true},
		{name: "unlimited", why: "everything fits at once", limit: brim.Unlimited, before: 10, n: 1e15, accepted: true},
		{name: "no capacity", why: "no wait helps", limit: brim.Limit{LeakRate: 1}, n: 1, least: brim.Never, err: brim.ErrOverLimit},
		{name: "nothing", why: "0 units always fit", before: 10, n: 0, accepted: true},
		{name: "blocked", why: "a block is a wait like any other", block: 7 * time.Second, n: 1, accepted: true, least: 7 * time.Second},
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
					if retry := givenUp(err).RetryAfter; took != 0 || retry != c.least {
						t.Errorf("RetryAfter %v, after %v; want %v at once: %s", retry, took, c.least, c.why)
					}
					return
				}
				if took < c.least || took > c.least+c.least/10 || st.RetryAfter != 0 {
					t.Errorf("waited for %v; want %v and up to a tenth more: %s", took, c.least, c.why)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // Limiters of many processes must not ask at one moment
		lim := brim.New(inMemory(t), nil)
		at := map[time.Duration]bool{}
		for i := range 20 {
			b := tens.For(fmt.Sprint(i))
			must(t)(lim.TryFillup(t.Context(), b, 10))
			begin := time.Now()
			must(t)(lim.Wait(t.Context(), b, 1))
			at[time.Since(begin).Round(time.Millisecond)] = true
		}
		if len(at) < 10 {
			t.Errorf("20 waits of a second ended at %d moments", len(at))
		}
	})
	if _, err := brim.New(nil, nil).Wait(t.Context(), tens.For("b"), 1); !errors.Is(err, brim.ErrClosed) {
		t.Errorf("without a store: %v; want %v", err, brim.ErrClosed)
	}
}

// TestWaitInLine starts callers one after another, of whom some give up. The others must go in in
// the order in which they came, whatever their amounts, none later than the bucket and the jitter
// ask for, and only the first of them may ask the store.
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
					// Waits may end at one moment, so the order is that of the fills.
					place := func(n float64) int { return slices.Index(amounts, n) }
					slices.SortFunc(in, func(a, b float64) int { return place(a) - place(b) })
					if !slices.Equal(s.went, in) || share == 0 && len(in) != 1+callers {
						t.Errorf("%d callers went in, in the order of %v; want %v", len(in)-1, s.went, in)
					}
					// With everybody on time the last goes in after as many seconds as there are
					// units.
					if most := 1.1*units + 10; share == 0 && time.Since(begin).Seconds() > most {
						t.Errorf("%v units took %v", units, time.Since(begin))
					}
					// A caller asks when it comes, once or twice at the front, and then with its
					// units.
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

// TestNewcomerOvertakesNobody makes room for everybody in a line. A newcomer goes in behind them all
// the same.
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
