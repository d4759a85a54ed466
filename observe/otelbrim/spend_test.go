package otelbrim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// driveSpend charges, declines, replays and holds money that expires, and fails once.
func driveSpend(t *testing.T, h spend.Hooks) {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	usd := func(micros int64) spend.Money { return spend.Money{Minor: micros, Currency: "USD:6"} }
	b, err := spend.New(memledger.New(&memledger.Options{Clock: func() time.Time { return now }}), spend.Budget{
		Name: "tokens", Currency: "USD:6", Rules: []spend.Rule{spend.Rolling("day", usd(10_000000), 24*time.Hour)},
	}, &spend.Options{Hooks: []spend.Hooks{h}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []spend.Request{
		{ID: "1", Amount: usd(4_500000)},
		{ID: "1", Amount: usd(4_500000)},
		{ID: "2", Amount: usd(6_000000)},
		{ID: "3", Amount: usd(11_000000)},
		{ID: "4", Amount: usd(0)},
	} {
		r.Account = "card:4711"
		if _, err := b.Authorize(t.Context(), r); err != nil && !errors.Is(err, spend.ErrAmount) {
			t.Fatal(err)
		}
	}
	if _, err := b.Authorize(t.Context(), spend.Request{ID: "5", Account: "card:1", Amount: usd(20_000000), Forced: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(t.Context(), "5", "card:1"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"6", "7"} { // the clock is 59 seconds behind the account, and then 61
		now = now.Add(map[string]time.Duration{"6": -59 * time.Second, "7": -2 * time.Second}[id])
		if _, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "card:4711", Amount: usd(1)}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(30 * 24 * time.Hour)
	if _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
}

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
	driveSpend(t, h)
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
