package stores_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/stores"
)

// A program takes the store from its configuration.
func ExampleOpen() {
	limits, err := stores.Open(context.Background(), "memory:", nil) // or limits.db, postgres://..., redis://...
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	st, err := brim.New(limits, nil).TryFillup(context.Background(), brim.Over(5, time.Minute).For("user:42"), 1)
	fmt.Println(st.Accepted, err)
	// Output: true <nil>
}
