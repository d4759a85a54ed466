package simulate

import (
	"math/big"
	"strconv"
	"time"

	"github.com/brimgo/brim/store"
)

// A double cannot represent a fifth or a third exactly. A bucket that leaks 0.2 per second is off
// by one unit in the last place after some seconds, and then decides wrongly on requests that
// would fill it exactly. A bucket whose numbers are all multiplied by the same factor makes the
// same decisions. A gate therefore counts in a unit in which the capacity, the leak of a second
// and the cost are whole numbers. Then nothing is rounded if the times are whole seconds, as in
// access logs.

// unit is the unit in which a gate counts.
type unit struct {
	limit  store.Limit
	factor float64     // units of the gate per unit of the limit
	scaled store.Limit // the limit in units of the gate
}

// newUnit returns a unit in which nothing is rounded, or the unit of the limit if there is none or
// the numbers would become too large. cost is the cost of every request, or 0 if the costs differ.
func newUnit(l Limit, cost float64) unit {
	capacity, rate := decimal(l.Capacity), decimal(l.LeakRate)
	if l.Over > 0 {
		rate.Quo(new(big.Rat).Mul(capacity, big.NewRat(int64(time.Second), 1)), big.NewRat(int64(l.Over), 1))
	}
	k := big.NewInt(1)
	for _, r := range []*big.Rat{capacity, rate, decimal(cost)} {
		d := odd(r.Denom())                                  // a double represents halves exactly
		k.Mul(k, d.Div(d, new(big.Int).GCD(nil, nil, k, d))) // the least common multiple
	}
	times := func(r *big.Rat) (float64, bool) {
		f, exact := new(big.Rat).Mul(r, new(big.Rat).SetInt(k)).Float64()
		return f, exact && f < store.MaxAmount
	}
	c, okC := times(capacity)
	r, okR := times(rate)
	f, okF := new(big.Rat).SetInt(k).Float64()
	if !okC || !okR || !okF {
		return unit{limit: l.Limit, factor: 1, scaled: l.Limit}
	}
	return unit{limit: l.Limit, factor: f, scaled: store.Limit{Capacity: c, LeakRate: r}}
}

// amount returns a cost in units of the gate. The scaled capacity is below the largest amount, so
// a gate refuses a cost above the largest amount as well.
func (u *unit) amount(cost float64) float64 { return min(cost*u.factor, store.MaxAmount) }

// units returns a level of the gate in units of the limit.
func (u *unit) units(level float64) float64 { return level / u.factor }

// decimal returns the decimal number that a caller has written for the double f.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64)) // cannot fail
	return r
}

// odd returns n without its factors of two.
func odd(n *big.Int) *big.Int { return new(big.Int).Rsh(n, n.TrailingZeroBits()) }
