package memory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// A test moves the clock of a store, and waits for nothing.
func Example() {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	db := memory.New(&memory.Options{Clock: func() time.Time { return now }})
	limiter := brim.New(db, nil)
	calls := brim.Over(2, time.Minute) // two at once, then one more every 30 seconds
	for range 4 {
		st, err := limiter.TryFillup(context.Background(), calls.For("user:42"), 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(st.Accepted, st.RetryAfter)
		now = now.Add(10 * time.Second)
	}
	// Output:
	// true 0s
	// true 0s
	// false 10s
	// true 0s
}

// MaxBuckets bounds the memory. A bucket in use is never forgotten for a new one: new keys share
// buckets while the store is full.
func ExampleOptions() {
	db := memory.New(&memory.Options{MaxBuckets: 1})
	limiter := brim.New(db, nil)
	for _, key := range []string{"user:1", "user:2"} {
		st, err := limiter.TryFillup(context.Background(), brim.Over(2, time.Hour).For(key), 1)
		fmt.Println(key, st.Accepted, st.Estimate, err)
	}
	// Output:
	// user:1 true false <nil>
	// user:2 true true <nil>
}
