// Command demo fills buckets and shows their metrics, so that there is something to see on the
// dashboard: see docs/observability.md. It ends with Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
	"github.com/brimgo/brim/store"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9464", "serve /metrics at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		log.Fatal(err)
	}
}

// run fills buckets until ctx ends.
func run(ctx context.Context, address string) error {
	db := memory.New(nil)
	defer func() { _ = db.Close() }() // memory: nothing is left to write
	counter := observe.NewBucketCounter(db)
	defer counter.Close()
	perAddress, perTenant := brim.Over(10, time.Second), brim.Limit{Capacity: 1000, LeakRate: 200}
	reg := prometheus.NewRegistry()
	hooks, err := prombrim.New(reg, &prombrim.Options{
		Limits:  map[string]store.Limit{"address": perAddress, "tenant": perTenant},
		Buckets: counter,
	})
	if err != nil {
		return err
	}
	s, err := observe.New(db, hooks, nil)
	if err != nil {
		return err
	}
	limiter := brim.New(s, nil)

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	serving := make(chan error, 1)
	go func() { serving <- server.ListenAndServe() }()
	log.Printf("metrics at http://%s/metrics", address)

	ticks := time.NewTicker(2 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return server.Close()
		case err := <-serving:
			return err
		case <-ticks.C:
		}
		// A few addresses send most of the requests, and a tenant inserts rows in batches.
		address := fmt.Sprintf("address:%d", int(rand.ExpFloat64()*10))
		_, one := limiter.TryFillup(ctx, perAddress.For(address), 1)
		_, batch := limiter.TryFillup(ctx, perTenant.For("tenant:42"), float64(rand.IntN(10)))
		if err := errors.Join(one, batch); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
