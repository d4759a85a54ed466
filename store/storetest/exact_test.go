package storetest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// whole returns q as math/big has it.
func whole(q num) *big.Int {
	n := new(big.Int)
	for i := 3; i >= 0; i-- {
		n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(q[i]))
	}
	if q.sign() < 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 256))
	}
	return n
}

// TestExact compares the arithmetic of the model with math/big.
func TestExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	number := func() float64 {
		f := math.Ldexp(math.Floor(r.Float64()*(1<<53)), r.IntN(54+75)-75-53)
		return [...]float64{f, -f, math.Floor(f), 0}[r.IntN(4)]
	}
	for range 100_000 {
		f, g, n := number(), number(), r.Int64N(1<<r.IntN(54))
		unit := new(big.Float).SetMantExp(big.NewFloat(1e6), quantum)
		exact, _ := new(big.Float).SetPrec(400).Mul(unit, big.NewFloat(f)).Int(nil)
		q, p := quanta(f), quanta(g)
		for _, c := range []struct {
			name      string
			got, want *big.Int
		}{
			{"quanta", whole(q), exact},
			{"add", whole(q.add(p)), new(big.Int).Add(whole(q), whole(p))},
			{"sub", whole(q.sub(p)), new(big.Int).Sub(whole(q), whole(p))},
			{"times", whole(perMicro(math.Abs(f)).times(n)), new(big.Int).Mul(whole(perMicro(math.Abs(f))), big.NewInt(n))},
		} {
			if c.got.Cmp(c.want) != 0 {
				t.Fatalf("%s of %v and %v or %d: %v, want %v", c.name, f, g, n, c.got, c.want)
			}
		}
		if q.units() != f || q.sign() != exact.Sign() || larger(q, p).units() != max(f, g) {
			t.Fatalf("%v and %v: %v, sign %d, larger %v", f, g, q.units(), q.sign(), larger(q, p).units())
		}
	}
}
