package load

import (
	"fmt"
	"math/rand/v2"
)

// Order is the keys in the order in which they are asked for: n is the key of that number, ^n the full bucket of that number.
// It is drawn before the clock runs, so that drawing costs the measurement nothing and all subjects get the same.
type Order []int32

// turns is the least length of an order. Callers who start at random places of it do not walk in step.
const turns = 1 << 20

// Distributions are the names that [Draw] knows.
var Distributions = [...]string{"uniform", "zipf", "hot"}

// zipfExponent is how steep popularity falls: the key of rank k is asked for in proportion to k^-1.1, as web pages are.
const zipfExponent = 1.1

// Draw draws an order over keys, of which the share refused, from 0 to 1, falls on full buckets, over fullKeys of them in the
// same distribution. The same seed draws the same order.
func Draw(distribution string, keys, fullKeys int, refused float64, seed uint64) (Order, error) {
	if keys < 1 || fullKeys < 1 || refused < 0 || refused > 1 {
		return nil, fmt.Errorf("load: %d keys, %d full keys, share %v; want at least 1 of each, and a share from 0 to 1", keys, fullKeys, refused)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var next func(n int) int
	switch distribution {
	case "uniform":
		next = r.IntN
	case "hot":
		next = func(int) int { return 0 }
	case "zipf":
		generators := map[int]*rand.Zipf{
			keys:     rand.NewZipf(r, zipfExponent, 1, uint64(keys-1)),
			fullKeys: rand.NewZipf(r, zipfExponent, 1, uint64(fullKeys-1)),
		}
		next = func(n int) int { return int(generators[n].Uint64()) }
	default:
		return nil, fmt.Errorf("load: no distribution %q; want one of %q", distribution, Distributions)
	}
	order := make(Order, max(turns, keys))
	for i := range order {
		if refused > 0 && r.Float64() < refused {
			order[i] = ^int32(next(fullKeys))
		} else {
			order[i] = int32(next(keys))
		}
	}
	return order, nil
}
