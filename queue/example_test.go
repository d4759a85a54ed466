package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/queue"
)

// A worker sends 50 letters per second, in order. A letter that would wait for more than 200
// milliseconds is dropped.
func Example() {
	letters, err := queue.New(brim.Smooth(50, 200*time.Millisecond), func(_ context.Context, to string) {
		fmt.Println("to", to)
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, to := range []string{"alice", "bob", "carol"} {
		if err := letters.Put(context.Background(), to); err != nil {
			fmt.Println(to, err)
		}
	}
	fmt.Println(letters.Close(context.Background()))
	// Output:
	// to alice
	// to bob
	// to carol
	// <nil>
}
