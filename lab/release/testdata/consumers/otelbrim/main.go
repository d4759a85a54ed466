// Command consumer feeds OpenTelemetry, as a program outside of this repository does.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/otelbrim"
)

func main() {
	hooks, err := otelbrim.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	buckets := memory.New(nil)
	s, err := observe.New(buckets, hooks, nil)
	if err != nil {
		log.Fatal(err)
	}
	st, err := brim.New(s, nil).TryFillup(context.Background(), brim.Over(5, time.Minute).For("user:42"), 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted:", st.Accepted)
}
