package otelbrim_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/otelbrim"
)

// A program with OpenTelemetry's global providers leaves MeterProvider out.
func ExampleNew() {
	ctx := context.Background()
	reader := metric.NewManualReader()
	hooks, err := otelbrim.New(&otelbrim.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	db := memory.New(nil)
	s, err := observe.New(db, hooks, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close() // closes db, too
	if _, err := brim.New(s, nil).TryFillup(ctx, brim.Over(2, time.Hour).For("user:42"), 1); err != nil {
		log.Fatal(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "brim.decisions" {
			fmt.Println(m.Name, sum.DataPoints[0].Value)
		}
	}
	// Output: brim.decisions 1
}
