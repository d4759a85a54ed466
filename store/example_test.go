package store_test

import (
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// A record is all that a backend keeps for a bucket. Its level falls by itself.
func ExampleRecord_LevelAt() {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixMicro()
	r := store.Record{Level: 10, Limit: store.Limit{Capacity: 10, LeakRate: 2}, Time: noon}
	for _, idle := range []time.Duration{0, time.Second, time.Minute} {
		fmt.Println(r.LevelAt(noon + idle.Microseconds()))
	}
	// Output:
	// 10
	// 8
	// 0
}
