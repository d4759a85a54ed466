package brim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// exact is a bucket in whole 64ths of a unit, on a clock of whole 64ths of a second, with whole leak rates: nothing is rounded.
type exact struct {
	level, capacity, rate int64
	at                    int64
}

func (b *exact) leak(now int64) {
	b.level = max(0, b.level-b.rate*(now-b.at))
	b.at = now
}

// A user within a tenant within the whole: random cases against three separate exact buckets. A refusal by any level changes
// none, and says which it was.
func TestHierarchy(t *testing.T) {
	const cases, tick = 1000, time.Second / 64
	onEachBackend(t, func(t *testing.T, s store.Store, clock *ticking) {
		rng := rand.New(rand.NewPCG(3, 3))
		lim := brim.New(s, nil)
		limits := []brim.Limit{{Capacity: 8, LeakRate: 2}, {Capacity: 20, LeakRate: 2}, {Capacity: 40, LeakRate: 3}}
		keys := [][]string{{"user:1", "user:2", "user:3"}, {"tenant:1", "tenant:2"}, {"all"}}
		model := map[string]*exact{}
		for level, names := range keys {
			for _, key := range names {
				model[key] = &exact{capacity: int64(64 * limits[level].Capacity), rate: int64(limits[level].LeakRate)}
			}
		}
		now, refusedBy := int64(0), [3]int{}
		for range cases {
			if rng.IntN(3) > 0 {
				ticks := rng.Int64N(64)
				now += ticks
				clock.Advance(time.Duration(ticks) * tick)
			}
			n := 1 + rng.Int64N(64*6) // up to 6 units
			var fills []brim.Fill
			for level, names := range keys {
				fills = append(fills, brim.Fill{Bucket: limits[level].For(names[rng.IntN(len(names))]), Amount: float64(n) / 64})
			}
			rng.Shuffle(len(fills), func(i, j int) { fills[i], fills[j] = fills[j], fills[i] })
			fits := true
			for _, f := range fills {
				b := model[f.Bucket.Key]
				b.leak(now)
				fits = fits && b.level+n <= b.capacity
			}
			states, err := lim.TryFillupAll(t.Context(), fills...)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range fills {
				b := model[f.Bucket.Key]
				refuses := b.level+n > b.capacity
				if fits {
					b.level += n
				}
				st := states[i]
				if st.Accepted != fits || st.Level != float64(b.level)/64 || st.RetryAfter > 0 != refuses {
					t.Fatalf("%s: accepted %v, level %v, wait %v; want %v, %v, a wait: %v",
						f.Bucket.Key, st.Accepted, st.Level, st.RetryAfter, fits, float64(b.level)/64, refuses)
				}
				if refuses {
					refusedBy[int(f.Bucket.Capacity)/20]++
				}
			}
		}
		for key, b := range model {
			st, err := lim.StateOf(t.Context(), key)
			b.leak(now)
			if err != nil || st.Level != float64(b.level)/64 {
				t.Errorf("%s: level %v, %v; want %v", key, st.Level, err, float64(b.level)/64)
			}
		}
		if refusedBy[0] == 0 || refusedBy[1] == 0 || refusedBy[2] == 0 {
			t.Errorf("refusals by user, tenant and whole: %v; each level must have refused", refusedBy)
		}
	})
}
