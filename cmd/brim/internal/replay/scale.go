package replay

import (
	"context"
	"math/big"
	"strconv"
	"time"

	"github.com/brimgo/brim/store"
)

// A double cannot represent a fifth or a third exactly. A bucket that leaks 0.2 per second is off
// by one unit in the last place after some seconds, and then decides wrongly on requests that
// would fill it exactly. A bucket whose numbers are all multiplied by the same factor makes the
// same decisions. The replay therefore counts in a unit in which the capacity, the leak of a
// second and the cost are whole numbers. Then nothing is rounded if the times are whole seconds,
// as in access logs.

// scale returns the factor of that unit, or 1 if there is none or the numbers would become too
// large. over, if not 0, is the exact time in which a full bucket drains. cost is the cost of
// every request, or 0 if the costs differ.
func scale(l store.Limit, over time.Duration, cost float64) (factor float64, scaled store.Limit) {
	capacity, rate := decimal(l.Capacity), decimal(l.LeakRate)
	if over > 0 {
		rate.Quo(new(big.Rat).Mul(capacity, big.NewRat(int64(time.Second), 1)), big.NewRat(int64(over), 1))
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
		return 1, l
	}
	return f, store.Limit{Capacity: c, LeakRate: r}
}

// decimal returns the decimal number that a caller has written for the double f.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64)) // cannot fail
	return r
}

// odd returns n without its factors of two.
func odd(n *big.Int) *big.Int { return new(big.Int).Rsh(n, n.TrailingZeroBits()) }

// unscale rewrites the buckets in units of the limit, after a replay whose buckets stay in the
// store.
func (r *run) unscale(ctx context.Context) error {
	if r.factor == 1 {
		return nil
	}
	keys := make([]string, 0, len(r.tallies))
	for key := range r.tallies {
		keys = append(keys, key)
	}
	for len(keys) > 0 {
		n := min(chunk, len(keys))
		err := r.update(ctx, func(s store.Store) error {
			for _, key := range keys[:n] {
				if err := r.unscaleOne(ctx, s, key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (r *run) unscaleOne(ctx context.Context, s store.Store, key string) error {
	r.Clock.micros.Store(r.tallies[key].last)
	b := r.Limit.For(r.Prefix + key)
	states, err := s.Read(ctx, r.scaled.For(b.Key))
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, b.Key); err != nil || states[0].Level == 0 {
		return err // an empty bucket is the same as an absent one
	}
	_, err = s.Fill(ctx, store.Op{Bucket: b, Amount: states[0].Level / r.factor, Mode: store.Always})
	return err
}
