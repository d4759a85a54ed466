package storetest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// conservation adds up the units that a bucket granted on decimal inputs, and compares the sum
// with the bucket's room and leak, in all intervals at once.
func (s *suite) conservation(t *testing.T) {
	const why = "in any interval the units taken by TryFillup and Hold are at most the room at its start, " +
		"plus the leak rate times its length, plus the units drained or released in it"
	steps := 1500
	if s.few() {
		steps = 300
	}
	for i, limit := range []store.Limit{
		{Capacity: 0.3, LeakRate: 0.1}, {Capacity: 99.9, LeakRate: 1e3 / 7}, {Capacity: 1e6 / 3, LeakRate: 1e-2},
	} {
		t.Run(fmt.Sprintf("%v at %v", limit.Capacity, limit.LeakRate), func(t *testing.T) {
			st, clock := s.at(t)
			b := limit.For("b")
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			writes := 0
			taken, given := new(big.Rat), new(big.Rat)
			// Let x be taken - given - rate * time. For any two moments x of the later exceeds
			// x of the earlier by at most the room at the earlier. So x plus room bounds all
			// later x, and least is the smallest such bound.
			var least *big.Rat
			highest := int64(start)
			for step := range steps {
				switch rng.IntN(8) {
				case 0:
					clock.set(max(highest-maxSkew.Microseconds(), clock.now().UnixMicro()-rng.Int64N(60_000_000)))
				case 1, 2, 3, 4:
					clock.step(time.Duration(rng.Float64() * 0.1 * limit.Capacity / limit.LeakRate * float64(time.Second)))
				}
				highest = max(highest, clock.now().UnixMicro())
				op := store.Op{Bucket: b}
				n := limit.Capacity * rng.Float64() * 0.5
				switch rng.IntN(8) {
				case 0:
					op.Amount, op.Mode = -n/8, store.Always
				case 1:
					op.Hold = n / 4
				case 2:
					held, err := st.Read(t.Context(), b)
					if err != nil {
						t.Fatal(err)
					}
					op.Hold, op.Mode = -held[0].Held/2, store.Always
				default:
					op.Amount = n
				}
				if !s.supports(op) {
					continue
				}
				got, err := st.Fill(t.Context(), op)
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				if got.Accepted {
					writes++
					for _, x := range []float64{op.Amount, op.Hold} {
						if x > 0 {
							taken.Add(taken, rat(x))
						} else {
							given.Sub(given, rat(x))
						}
					}
				}
				leaked := new(big.Rat).Mul(rat(limit.LeakRate), big.NewRat(got.At.UnixMicro()-start, 1_000_000))
				now := new(big.Rat).Sub(new(big.Rat).Sub(taken, given), leaked)
				rounding := rat(float64(2*(writes+1)) * ulp(limit.Capacity))
				if least != nil && now.Cmp(new(big.Rat).Add(least, rounding)) > 0 {
					t.Fatalf("step %d, after %+v: %s units too many were granted\nwhy: %s",
						step, got, new(big.Rat).Sub(now, least).FloatString(9), why)
				}
				room := new(big.Rat).Sub(rat(limit.Capacity), rat(got.Level))
				allowance := room.Add(room.Sub(room, rat(got.Held)), now)
				if least == nil || allowance.Cmp(least) < 0 {
					least = allowance
				}
			}
			if writes < steps/5 || writes == steps {
				t.Errorf("%d of %d operations were accepted; want at least %d, and some refusals", writes, steps, steps/5)
			}
		})
	}
}

// rat returns f exactly.
func rat(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }
