package brim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/seed"
)

// A booking promises: if units count from the turns of their callers on, and not from the bookings,
// the level of the bucket, with held units, never exceeds its capacity.
//
// Proof. Let L be the stored level, P the part of it whose turns have not come, V the level if
// units count from their turns on, H the held units, C the capacity and r the rate. A booking of n
// that leaves L has its turn (L - (C - H)) / r later, or at once, and n + H <= C, or Wait gives up.
// So at a turn L is C - H and the units that were booked behind it: L - P is C - H. Between two
// turns L - P falls by the amount n of the second one, which is at most C - H. So L - P is never
// negative, leaks as V does, and grows by the same units at the same times: V <= L - P <= C - H.
// Where P is 0, all fills have to fit.
//
// Only the last booking can be given back. Units that leave from the middle are missing between two
// turns, where L - P becomes negative, and V does not. Ten units that leak one a second are full; A
// books 10 for the 10th second, B books 10 for the 20th, and A leaves. In the 20th second L is 0,
// so that a TryFillup of 10 goes in beside the 10 of B: 20 of 10.

// use is a change of the units in a bucket at a time. The units of hold do not leak.
type use struct {
	at      time.Time
	n, hold float64
}

// highest returns the highest level, with held units, of an empty bucket with those uses.
func highest(uses []use, rate float64) (most float64) {
	level, held, last := 0.0, 0.0, time.Time{}
	slices.SortStableFunc(uses, func(a, b use) int { return a.at.Compare(b.at) })
	for _, u := range uses {
		if level > 0 {
			level = max(0, level-rate*u.at.Sub(last).Seconds())
		}
		level, held, last = level+u.n, held+u.hold, u.at
		most = max(most, level+held)
	}
	return most
}

// TestWaitModel lets callers of several Limiters over one store wait, leave, try, hold and block at
// random. What they used never exceeds the capacity, by what leaks in two microseconds at most.
func TestWaitModel(t *testing.T) {
	const capacity = 16
	from, err := seed.New()
	noError(t, err)
	t.Logf("BRIM_SEED=%d repeats this run", from)
	went, left, refused, tried, above := 0, 0, 0, 0, 0
	for i := range uint64(seed.Attempts(200, 20_000)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(from, i))
			s := inMemory(t)
			lims := []*brim.Limiter{brim.New(s, nil), brim.New(s, nil), brim.New(s, nil)}
			rate := []float64{0.5, 4, 100}[rng.IntN(3)]
			b := brim.Limit{Capacity: capacity, LeakRate: rate}.For("k")
			units := func(n float64) time.Duration { // a random part of the time in which n units leak
				return time.Duration(rng.Int64N(int64(n / rate * float64(time.Second))))
			}
			var mu sync.Mutex
			var uses []use
			used := func(u use) {
				mu.Lock()
				defer mu.Unlock()
				uses = append(uses, u)
			}
			var all sync.WaitGroup
			for range 120 {
				time.Sleep(units(6))
				lim, n := lims[rng.IntN(len(lims))], float64(1+rng.IntN(capacity))
				switch rng.IntN(12) {
				default:
					ctx, leave := context.WithCancel(t.Context())
					if rng.IntN(3) == 0 {
						time.AfterFunc(units(60), leave)
					}
					all.Go(func() {
						defer leave()
						st, err := lim.Wait(ctx, b, n)
						if err == nil {
							used(use{at: time.Now(), n: n})
						}
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil && st.Level > capacity:
							above++
							fallthrough
						case err == nil:
							went++
						case errors.Is(err, context.Canceled):
							left++
						case errors.Is(err, brim.ErrOverLimit): // beside held units
							refused++
						default:
							t.Error(err)
						}
					})
				case 0, 1:
					if st := must(t)(lim.TryFillup(t.Context(), b, n/8)); st.Accepted {
						used(use{at: time.Now(), n: n / 8})
						tried++
					}
				case 2:
					if st := must(t)(lim.Hold(t.Context(), b, n/4)); st.Accepted {
						used(use{at: time.Now(), hold: n / 4})
						time.AfterFunc(units(40), func() {
							must(t)(lim.Capture(context.Background(), b, n/4, n/8))
							used(use{at: time.Now(), n: n / 8, hold: -n / 4})
						})
					}
				case 3:
					must(t)(lim.Block(t.Context(), b.Key, units(5)+time.Microsecond))
				}
			}
			all.Wait()
			time.Sleep(time.Hour) // the last holds end
			if most := highest(uses, rate); most > capacity+2e-6*rate {
				t.Errorf("run %d: the level was %v of %v", i, most, capacity)
			}
		})
	}
	t.Logf("%d waits, %d of which were booked; %d left, %d refused, %d fills between them", went, above, left, refused, tried)
	if went == 0 || above < went/4 || left == 0 || tried == 0 {
		t.Error("the random calls miss a part of Wait")
	}
}
