package load

import (
	"fmt"
	"math/rand/v2"
)

// Order is a sequence of keys to ask for. A number n stands for the key with the number n, and ^n
// for the full bucket with the number n. Draw an order before the measurement, and give the same
// order to all subjects.
type Order []int32

// least is the least length of an order. Callers start at random places of the order. In a long
// order they do not ask for the same keys at the same time.
const least = 1 << 20

// Draw draws an order of keys from a distribution: "uniform", each key equally likely, or "hot",
// one key alone. refused, from 0 to 1, is the share of full
// buckets in the order. The full buckets come from the same distribution over fullKeys buckets.
// The same arguments always give the same order.
func Draw(distribution string, keys, fullKeys int, refused float64, seed uint64) (Order, error) {
	if keys < 1 || fullKeys < 1 || refused < 0 || refused > 1 {
		return nil, fmt.Errorf(
			"load: %d keys, %d full keys, share %v; want at least 1 of each, and a share from 0 to 1", keys,
			fullKeys, refused)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var next func(n int) int
	switch distribution {
	case "uniform":
		next = r.IntN
	case "hot":
		next = func(int) int { return 0 }
	default:
		return nil, fmt.Errorf("load: no distribution %q; want uniform or hot", distribution)
	}
	order := make(Order, max(least, keys))
	for i := range order {
		if refused > 0 && r.Float64() < refused {
			order[i] = ^int32(next(fullKeys))
		} else {
			order[i] = int32(next(keys))
		}
	}
	return order, nil
}
