package local_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
)

// A store across the network is not asked again for amounts that it would refuse.
func ExampleRefusals() {
	db, err := memory.New(nil) // or postgres.New(pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := local.Refusals(db, nil)
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

// Each of several processes makes many calls on one bucket of a store across the network.
func ExampleLeases() {
	db, err := memory.New(nil) // or postgres.New(pool, nil), in each of several processes
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := local.Leases(db, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // closes db, too
	lim := brim.New(s, nil)

	events := brim.Limit{Capacity: 1_000_000, LeakRate: 100_000}
	accepted := 0
	for range 10_000 {
		st, err := lim.TryFillup(context.Background(), events.For("ingest"), 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if st.Accepted {
			accepted++
		}
	}
	fmt.Println(accepted, "accepted")
	// Output: 10000 accepted
}
