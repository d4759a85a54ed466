package otelbrim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/brimgo/brim/observe/internal/sample"
)

// collectSpend returns the values of the metrics, by name and attributes, and the spans.
func collectSpend(t *testing.T) (map[string]float64, tracetest.SpanStubs) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	reader := sdkmetric.NewManualReader()
	h, err := NewSpend(&Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	sample.Spends(t, h)
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	point := func(name string, with attribute.Set, value float64) {
		for _, a := range with.ToSlice() {
			name += " " + a.Value.AsString()
		}
		got[name] = value
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				point(m.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Sum[float64]:
			for _, p := range d.DataPoints {
				point(m.Name, p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				point(m.Name, p.Attributes, float64(p.Count))
			}
		}
	}
	return got, spans.GetSpans()
}

func TestSpendMetrics(t *testing.T) {
	got, spans := collectSpend(t)
	want := map[string]float64{
		"brim.spend.decisions tokens authorize approved": 1, "brim.spend.decisions tokens authorize replayed": 1,
		"brim.spend.decisions tokens authorize declined": 1, "brim.spend.decisions tokens authorize never": 1,
		"brim.spend.declines tokens day": 2, "brim.spend.held tokens USD": 24.5, "brim.spend.expired tokens USD": 4.5,
		"brim.spend.decisions tokens authorize_forced approved": 1, "brim.spend.decisions tokens cancel approved": 1,
		"brim.spend.decisions tokens charge approved": 2, "brim.spend.ahead": 1, "brim.spend.call.duration authorize_forced": 1,
		"brim.spend.call.duration cancel": 1, "brim.spend.call.duration charge": 2,
		"brim.spend.call.duration authorize": 5, "brim.spend.call.duration prune": 1,
		"brim.spend.failures failed": 0, "brim.spend.failures unknown": 0, "brim.spend.failures late": 0, "brim.spend.failures canceled": 0,
		"brim.spend.failures invalid": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
	var seen []string
	for _, s := range spans {
		events := ""
		for _, e := range s.Events {
			if e.Name == "decision" {
				events += " " + e.Attributes[1].Value.AsString()
			}
		}
		seen = append(seen, fmt.Sprintf("%s%s, failed is %t", s.Name, events, s.Status.Code == codes.Error))
		if strings.Contains(fmt.Sprintf("%+v", s), "card:4711") {
			t.Errorf("the span %s contains an account", s.Name)
		}
	}
	if wantSpans := []string{
		"brim.spend.authorize approved, failed is false", "brim.spend.authorize replayed, failed is false",
		"brim.spend.authorize declined, failed is false", "brim.spend.authorize never, failed is false",
		"brim.spend.authorize, failed is true", "brim.spend.authorize_forced approved, failed is false",
		"brim.spend.cancel approved, failed is false", "brim.spend.charge approved, failed is false",
		"brim.spend.charge approved, failed is false", "brim.spend.prune, failed is false",
	}; !slices.Equal(seen, wantSpans) {
		t.Errorf("the spans are %q; want %q", seen, wantSpans)
	}
}
