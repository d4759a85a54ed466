package brim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// inMemory returns an empty store on the system's clock, which in a bubble of synctest is the bubble's.
func inMemory(t *testing.T) store.Store {
	t.Helper()
	s, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// 100 waiters on 200 per second, with some that give up and newcomers who take their places: released in order, none early, never
// two turns at once.
func TestWaiters(t *testing.T) {
	const apart = 5 * time.Millisecond
	for _, tc := range []struct {
		name      string
		open      func(t *testing.T) store.Store
		cancelled float64
		rounds    int
	}{
		{"memory, all stay", inMemory, 0, 1},
		{"memory, some give up", inMemory, 0.1, 20},
		{"memory, half give up", inMemory, 0.5, 20},
		{"memory, nearly all give up", inMemory, 0.9, 20},
		{"bolt, some give up", func(t *testing.T) store.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}, 0.3, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range tc.rounds {
				rng := rand.New(rand.NewPCG(1, uint64(seed)))
				synctest.Test(t, func(t *testing.T) {
					s := tc.open(t)
					defer s.Close()
					sh := shaper(t, s, 0)
					bucket := brim.Limit{Capacity: 1000, LeakRate: 200}.For("k")
					began := time.Now()
					var mu sync.Mutex
					var released []time.Duration
					var numbers []int // of the waiters, in the order of their release
					var wg sync.WaitGroup
					for i := range 100 {
						ctx, cancel := context.WithCancel(t.Context())
						if rng.Float64() < tc.cancelled {
							time.AfterFunc(time.Duration(rng.IntN(500_000))*time.Microsecond, cancel)
						}
						wg.Go(func() {
							defer cancel()
							st, err := sh.Wait(ctx, bucket, 1)
							switch {
							case errors.Is(err, context.Canceled):
								return
							case err != nil || !st.Accepted:
								t.Errorf("%+v, %v", st, err)
								return
							}
							now := time.Now()
							if early := st.At.Add(time.Duration(float64(st.Level-1) / 200 * 1e9)).Sub(now); early > time.Microsecond {
								t.Errorf("released %v early", early)
							}
							mu.Lock()
							defer mu.Unlock()
							released, numbers = append(released, now.Sub(began)), append(numbers, i)
						})
						synctest.Wait() // it is in the queue: the next one is behind it
						if tc.cancelled > 0 && i%3 == 0 {
							time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
						}
					}
					wg.Wait()
					if !slices.IsSorted(released) || !slices.IsSorted(numbers) {
						t.Errorf("not released in the order in which they came: %v", numbers)
					}
					for i := 1; i < len(released); i++ {
						// The bucket's clock is in whole microseconds, so a turn can be dated up to one early.
						if gap := released[i] - released[i-1]; gap < apart-time.Microsecond {
							t.Errorf("turns %v apart: waiters %d and %d at %v", gap, numbers[i-1], numbers[i], released[i])
						}
						if gap := released[i] - released[i-1]; tc.cancelled == 0 && gap != apart {
							t.Errorf("turns %v apart with all waiting; want %v", gap, apart)
						}
					}
					if tc.cancelled == 0 && len(released) != 100 {
						t.Errorf("%d released; want all 100", len(released))
					}
				})
			}
		})
	}
}

// Reservations of any size are made and taken back at random. The turns of those that were not taken back never overlap, however
// the rates and amounts round.
func TestReservationsNeverOverlap(t *testing.T) {
	type interval struct{ from, to time.Time }
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(2, seed))
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t)
			defer s.Close()
			sh := shaper(t, s, 0)
			rate := []float64{0.3, 1, 7.7, 200}[rng.IntN(4)]
			bucket := brim.Limit{Capacity: 40, LeakRate: rate}.For("k")
			unit := time.Duration(1e9 / rate)
			var live []*brim.Reservation
			var taken []interval
			use := func(r *brim.Reservation) {
				n := 1e9 * r.State.Level / rate
				taken = append(taken, interval{r.Turn(), r.State.At.Add(time.Duration(n))})
			}
			back := 0
			for range 300 {
				switch rng.IntN(5) {
				case 0, 1:
					r, err := sh.Reserve(t.Context(), bucket, []float64{0.1, 1, 2.3, 5}[rng.IntN(4)])
					if err != nil {
						t.Fatal(err)
					}
					if r.State.Accepted {
						live = append(live, r)
					}
				case 2, 3:
					if len(live) == 0 {
						break
					}
					i := len(live) - 1 - rng.IntN(min(3, len(live)))
					given, err := live[i].Cancel(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if !given {
						use(live[i]) // its turn stays, used or not
					} else {
						back++
					}
					live = slices.Delete(live, i, i+1)
				default:
					time.Sleep(time.Duration(rng.Float64() * 3 * float64(unit)))
				}
			}
			for _, r := range live {
				use(r)
			}
			slices.SortFunc(taken, func(a, b interval) int { return a.from.Compare(b.from) })
			for i := 1; i < len(taken); i++ {
				if over := taken[i-1].to.Sub(taken[i].from); over > 2*time.Microsecond {
					t.Fatalf("seed %d: turns overlap by %v", seed, over)
				}
			}
			if back == 0 || len(taken) == 0 {
				t.Errorf("seed %d: %d taken back and %d not: nothing was tested", seed, back, len(taken))
			}
		})
	}
}

// A burst of 50 at 10 per second: exactly those whose turn is within 500 ms wait, and the others are told at once, whether it is
// MaxWait or the caller's deadline that says so.
func TestBurst(t *testing.T) {
	for _, tc := range []struct {
		name              string
		maxWait, deadline time.Duration
		want              int
	}{
		{name: "MaxWait", maxWait: 500 * time.Millisecond, want: 6},
		{name: "deadline", deadline: 500 * time.Millisecond, want: 6},
		{name: "MaxWait before the deadline", maxWait: 500 * time.Millisecond, deadline: time.Hour, want: 6},
		{name: "deadline before MaxWait", maxWait: time.Hour, deadline: 500 * time.Millisecond, want: 6},
		{name: "between two turns", maxWait: 499 * time.Millisecond, want: 5},
		{name: "the bucket's depth", want: 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				sh := shaper(t, s, tc.maxWait)
				bucket := brim.Smooth(10, 2*time.Second).For("k")
				began := time.Now()
				var mu sync.Mutex
				var waited []time.Duration
				refused := 0
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						ctx := t.Context()
						if tc.deadline > 0 {
							var cancel func()
							ctx, cancel = context.WithTimeout(ctx, tc.deadline)
							defer cancel()
						}
						st, err := sh.Wait(ctx, bucket, 1)
						if err != nil {
							t.Errorf("a refusal is a State, and this is an error: %v", err)
						}
						mu.Lock()
						defer mu.Unlock()
						took := time.Since(began)
						switch {
						case st.Accepted:
							waited = append(waited, took)
						case took != 0 || st.RetryAfter <= 0:
							t.Errorf("refused after %v, RetryAfter %v; want at once, and when to come back", took, st.RetryAfter)
						default:
							refused++
						}
					})
				}
				wg.Wait()
				slices.Sort(waited)
				for i, took := range waited {
					if took != time.Duration(i)*100*time.Millisecond {
						t.Errorf("number %d waited %v; turns are 100 ms apart", i+1, took)
					}
				}
				if len(waited) != tc.want || refused != 50-tc.want {
					t.Errorf("%d waited and %d were refused; want %d of 50 to wait", len(waited), refused, tc.want)
				}
			})
		})
	}
}

// slow is a store whose answers take their time.
type slow struct {
	store.Store
	after time.Duration
}

func (s slow) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := s.Store.Fill(ctx, op)
	time.Sleep(s.after)
	return st, err
}

func TestWaitGivesBack(t *testing.T) {
	for _, tc := range []struct {
		name, why string
		store     func(store.Store) store.Store
		behind    bool
		deadline  time.Duration
		cancel    time.Duration
		want      error
		took      time.Duration
		level     float64 // left in the bucket when Wait returns, in seconds of waiting
	}{
		{
			name: "cancelled", why: "nobody is behind: the place is free again",
			cancel: 2 * time.Second, want: context.Canceled, took: 2 * time.Second, level: 3,
		},
		{
			name: "cancelled with somebody behind", why: "the turn passes unused",
			behind: true, cancel: 2 * time.Second, want: context.Canceled, took: 2 * time.Second, level: 5,
		},
		{
			name: "the answer came late", why: "the turn is after the deadline now: to wait for it is no use",
			store:    func(s store.Store) store.Store { return slow{s, time.Second} },
			deadline: 5 * time.Second, want: context.DeadlineExceeded, took: 2 * time.Second, level: 3,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				bucket := tens.For("k")
				must(t)(brim.New(s, nil).TryFillup(t.Context(), bucket, 5))
				used := s
				if tc.store != nil {
					used = tc.store(s)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				} else {
					time.AfterFunc(tc.cancel, cancel)
				}
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() {
					if _, err := shaper(t, used, 0).Wait(ctx, bucket, 1); !errors.Is(err, tc.want) || errors.Is(err, brim.ErrUnknownOutcome) {
						t.Errorf("got %v; want %v", err, tc.want)
					}
					if took := time.Since(began); took != tc.took {
						t.Errorf("returned after %v; want %v", took, tc.took)
					}
					if st := must(t)(brim.New(s, nil).State(t.Context(), bucket)); st.Level != tc.level {
						t.Errorf("level %v; want %v: %s", st.Level, tc.level, tc.why)
					}
				})
				synctest.Wait()
				if tc.behind {
					if _, err := shaper(t, s, 0).Reserve(t.Context(), bucket, 1); err != nil {
						t.Error(err)
					}
				}
				wg.Wait()
			})
		})
	}
}

// Callers that give up at any moment, in the middle of a call too, leave no connection in use and no goroutine (trap 16), and
// what they are told does not deny what may have been done (trap 17).
func TestGivingUpOverPostgres(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t, pool)
	before := goleak.IgnoreCurrent()
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	sh, lim := shaper(t, s, 0), brim.New(s, nil)
	hours := brim.Limit{Capacity: 1000, LeakRate: 1e-6} // hardly leaks: what is in the bucket is what went in
	reserved, waited := hours.For("reserved"), hours.For("waited")
	must(t)(lim.TryFillup(t.Context(), waited, 1))
	var wg sync.WaitGroup
	var in, unknown atomic.Int64
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*200*time.Microsecond, cancel)
		wg.Go(func() {
			r, err := sh.Reserve(ctx, reserved, 1)
			switch {
			case errors.Is(err, brim.ErrUnknownOutcome):
				unknown.Add(1)
			case err == nil && r.State.Accepted:
				in.Add(1)
			case !errors.Is(err, context.Canceled):
				t.Errorf("Reserve: %+v, %v", r, err)
			}
		})
		wg.Go(func() {
			if st, err := sh.Wait(ctx, waited, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %+v, %v; nobody's turn comes for days", st, err)
			}
		})
	}
	wg.Wait()
	level := must(t)(lim.State(t.Context(), reserved)).Level
	if least, most := float64(in.Load()), float64(in.Load()+unknown.Load()); level < least-0.001 || level > most {
		t.Errorf("level %v; want %v to %v, for some calls did not know their outcome", level, least, most)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); pool.Stat().AcquiredConns() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still in use", pool.Stat().AcquiredConns())
		}
	}
	pool.Close()
	goleak.VerifyNone(t, before)
}

// With real timers, as a program has it.
func TestWaitLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	sh := shaper(t, inMemory(t), 0)
	bucket := brim.Limit{Capacity: 10, LeakRate: 100}.For("k")
	for range 3 {
		if st, err := sh.Wait(t.Context(), bucket, 1); !st.Accepted || err != nil {
			t.Errorf("%+v, %v", st, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := sh.Wait(ctx, bucket, 5); !errors.Is(err, context.Canceled) && err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
