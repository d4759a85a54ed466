package lease_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/lease"
	"github.com/brimgo/brim/memory"
)

// Each of several processes makes many calls on one bucket of a store across the network.
func Example() {
	db, err := memory.New(nil) // or postgres.New(pool, nil), in each of several processes
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := lease.New(db, nil)
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
