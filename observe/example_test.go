package observe_test

import (
	"context"
	"fmt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
)

// A hook counts refusals without a library for metrics.
func Example() {
	refused := 0
	hooks := observe.Hooks{Decision: func(_ context.Context, d observe.Decision) {
		if !d.Accepted {
			refused++
		}
	}}
	db := memory.New(nil)
	s, err := observe.New(db, hooks, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // closes db, too
	lim := brim.New(s, nil)

	day := brim.Limit{Capacity: 10}
	for range 12 {
		if _, err := lim.TryFillup(context.Background(), day.For("tenant:42"), 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(refused, "refused")
	// Output: 2 refused
}
