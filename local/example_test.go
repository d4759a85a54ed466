package local_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// A store across the network is not asked again for amounts that it would refuse.
func ExampleRefusals() {
	db := memory.New(nil) // or postgres.New(pool, nil)
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
	db := memory.New(nil) // or postgres.New(pool, nil), in each of several processes
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

// While the server cannot be reached, each of four processes admits a quarter of each limit.
func ExampleFallback() {
	server := unreachable{} // a store of package redisstore or postgres, whose server is down
	memory := memory.New(nil)
	s, err := local.Fallback(server, memory, &local.FallbackOptions{
		Share: 0.25,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // closes both stores
	lim := brim.New(s, nil)
	for range 4 {
		st, err := lim.TryFillup(context.Background(), brim.Limit{Capacity: 12, LeakRate: 0.001}.For("tenant:42"), 1)
		fmt.Println(st.Accepted, st.Estimate, err)
	}
	// Output:
	// true true <nil>
	// true true <nil>
	// true true <nil>
	// false true <nil>
}

// unreachable is a store whose server is down.
type unreachable struct{ store.Store }

func (unreachable) Fill(context.Context, store.Op) (store.State, error) {
	return store.State{}, store.ErrUnavailable
}

func (unreachable) Close() error { return nil }
