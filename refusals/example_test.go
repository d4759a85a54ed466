package refusals_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/refusals"
)

// A store across the network is not asked again for amounts that it would refuse.
func Example() {
	db, err := memory.New(nil) // or postgres.New(pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := refusals.New(db, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // closes db, too
	lim := brim.New(s, nil)

	limit := brim.Limit{Capacity: 100, LeakRate: 0.001}
	for _, n := range []float64{100, 1, 101} {
		st, err := lim.TryFillup(context.Background(), limit.For("tenant:42"), n)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n, st.Accepted, "from memory:", st.Estimate)
	}
	// Output:
	// 100 true from memory: false
	// 1 false from memory: true
	// 101 false from memory: true
}
