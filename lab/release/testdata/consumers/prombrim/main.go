// Command consumer feeds Prometheus, as a program outside of this repository does.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
)

func main() {
	hooks, err := prombrim.New(prometheus.NewRegistry(), nil)
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
