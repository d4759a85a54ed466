package brim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// inMemory returns an empty memory store on the system's clock, which is the bubble's clock in
// a synctest bubble.
func inMemory(t *testing.T) store.Store {
	t.Helper()
	s := memory.New(nil)
	return s
}

// TestWaiters lets 100 callers wait in a bucket that leaks 200 units per second. Some give up,
// and later callers take their places. Callers must be released in order, none early, and never
// two at one turn.
func TestWaiters(t *testing.T) {
	const apart = 5 * time.Millisecond
	for _, test := range []struct {
		name      string
		open      func(t *testing.T) store.Store
		cancelled float64 // share of the callers
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
		t.Run(test.name, func(t *testing.T) {
			for seed := range test.rounds {
				rng := rand.New(rand.NewPCG(1, uint64(seed)))
				synctest.Test(t, func(t *testing.T) {
					s := test.open(t)
					defer s.Close()
					sh := shaper(t, s, 0)
					bucket := brim.Limit{Capacity: 1000, LeakRate: 200}.For("k")
					began := time.Now()
					var mu sync.Mutex
					var released []time.Duration
					var numbers []int // of the callers, in the order of their release
					var wg sync.WaitGroup
					for i := range 100 {
						ctx, cancel := context.WithCancel(t.Context())
						if rng.Float64() < test.cancelled {
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
							turn := st.At.Add(time.Duration(float64(st.Level-1) / 200 * 1e9))
							if early := turn.Sub(now); early > time.Microsecond {
								t.Errorf("caller %d was released %v early", i+1, early)
							}
							mu.Lock()
							defer mu.Unlock()
							released, numbers = append(released, now.Sub(began)), append(numbers, i)
						})
						synctest.Wait() // this caller is in the queue; the next caller is behind it
						if test.cancelled > 0 && i%3 == 0 {
							time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
						}
					}
					wg.Wait()
					if !slices.IsSorted(released) || !slices.IsSorted(numbers) {
						t.Errorf("callers were released in the order %v; want the order in which they came", numbers)
					}
					for i := 1; i < len(released); i++ {
						// The bucket's clock counts whole microseconds, so a turn can be up to
						// a microsecond early.
						if gap := released[i] - released[i-1]; gap < apart-time.Microsecond {
							t.Errorf("%v between callers %d and %d, at %v",
								gap, numbers[i-1], numbers[i], released[i])
						}
						if gap := released[i] - released[i-1]; test.cancelled == 0 && gap != apart {
							t.Errorf("turns are %v apart although all callers waited; want %v", gap, apart)
						}
					}
					if test.cancelled == 0 && len(released) != 100 {
						t.Errorf("%d callers were released; want all 100", len(released))
					}
				})
			}
		})
	}
}

// TestReservationsNeverOverlap reserves and cancels amounts of several sizes at random. The
// turns of the reservations that stay must not overlap, however rates and amounts round.
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
						use(live[i]) // the turn stays, used or not
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
				t.Errorf("seed %d: %d reservations cancelled, %d kept; want some of both", seed, back, len(taken))
			}
		})
	}
}

// TestBurst sends 50 callers at once into a queue of 10 per second. Exactly the callers whose
// turn comes in time must wait. The others must be refused at once, by MaxWait as well as by
// their deadline.
func TestBurst(t *testing.T) {
	for _, test := range []struct {
		name              string
		maxWait, deadline time.Duration
		want              int
	}{
		{name: "MaxWait", maxWait: 500 * time.Millisecond, want: 6},
		{name: "deadline", deadline: 500 * time.Millisecond, want: 6},
		{name: "MaxWait before the deadline", maxWait: 500 * time.Millisecond, deadline: time.Hour, want: 6},
		{name: "deadline before MaxWait", maxWait: time.Hour, deadline: 500 * time.Millisecond, want: 6},
		{name: "between two turns", maxWait: 499 * time.Millisecond, want: 5},
		{name: "the capacity", want: 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				sh := shaper(t, s, test.maxWait)
				bucket := brim.Smooth(10, 2*time.Second).For("k")
				began := time.Now()
				var mu sync.Mutex
				var waited []time.Duration
				refused := 0
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						ctx := t.Context()
						if test.deadline > 0 {
							var cancel func()
							ctx, cancel = context.WithTimeout(ctx, test.deadline)
							defer cancel()
						}
						st, err := sh.Wait(ctx, bucket, 1)
						refusal := givenUp(err)
						mu.Lock()
						defer mu.Unlock()
						took := time.Since(began)
						switch {
						case err == nil && st.Accepted:
							waited = append(waited, took)
						case took != 0 || refusal.RetryAfter <= 0:
							t.Errorf("%v after %v; want an OverLimitError at once, with a wait", err, took)
						default:
							refused++
						}
					})
				}
				wg.Wait()
				slices.Sort(waited)
				for i, took := range waited {
					if took != time.Duration(i)*100*time.Millisecond {
						t.Errorf("caller %d waited %v; want %d turns of 100 ms", i+1, took, i)
					}
				}
				if len(waited) != test.want || refused != 50-test.want {
					t.Errorf("%d callers waited and %d were refused; want %d of 50 to wait",
						len(waited), refused, test.want)
				}
			})
		})
	}
}

// TestWaitLeavesNothingBehind waits on the system's clock and must leave no goroutine.
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
