package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// Limits that may be forgotten when the process ends need no file and no server.
func Example() {
	db, err := memory.New(&memory.Options{
		MaxBuckets: 1_000_000,   // a flood of new keys cannot use up the memory
		PruneEvery: time.Minute, // memory shrinks after the flood
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close() // ends the pruning
	lim := brim.New(db, nil)

	perClient := brim.Over(100, time.Hour)
	for _, n := range []float64{60, 60} {
		st, err := lim.TryFillup(context.Background(), perClient.For("client:7"), n)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n, "requests, accepted:", st.Accepted)
	}
	// Output:
	// 60 requests, accepted: true
	// 60 requests, accepted: false
}
