package otelbrim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

var named = brim.Limit{Capacity: 10, LeakRate: 1}

// collect makes some calls and returns the metrics, and the spans of the calls.
func collect(t *testing.T, listed func(store.Store) store.Store) (map[string]metricdata.Aggregation, tracetest.SpanStubs) {
	t.Helper()
	s := memory.New(&memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	counter := observe.NewBucketCounter(listed(s))
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
		counter.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := New(&Options{
		MeterProvider: meters, TracerProvider: tracers, Buckets: counter,
		Limits: map[string]store.Limit{"card": named},
		Findings: func() []store.Finding {
			return []store.Finding{{Severity: store.Warning, Subject: "held rows"}, {Severity: store.Warning, Subject: "held rows"}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := observe.New(s, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	lim := brim.New(wrapped, nil)
	card := named.For("card:4711")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx context.Context
		n   float64
	}{{t.Context(), 8}, {t.Context(), 5}, {t.Context(), 11}, {done, 1}} {
		if _, err := lim.TryFillup(c.ctx, card, c.n); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if st, err := lim.Fillup(t.Context(), card, 3); err != nil || st.Spilled != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	tried := brim.New(wrapped, &brim.Options{Shadow: func(context.Context, brim.Fill, error) {}})
	if st, err := tried.TryFillup(t.Context(), card, 7); err != nil || !st.Accepted {
		t.Fatalf("%+v, %v", st, err)
	}
	trace := h.Trace()
	trace.Flush(store.Flush{Backend: "bolt", Requests: 3})
	trace.Retry(store.Retry{Backend: "bolt", Attempt: 1, Err: store.ErrUnavailable})
	var data metricdata.ResourceMetrics
	// A collection waits a second only for the first count.
	if _, err := counter.Count(t.Context()); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]metricdata.Aggregation)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			metrics[m.Name] = m.Data
			if strings.Contains(fmt.Sprintf("%+v", m), "card:4711") {
				t.Errorf("%s contains a key", m.Name)
			}
		}
	}
	return metrics, spans.GetSpans()
}

func itself(s store.Store) store.Store { return s }

func TestMetrics(t *testing.T) {
	metrics, spans := collect(t, itself)
	units := make(map[string]float64)
	for _, p := range metrics["brim.units"].(metricdata.Sum[float64]).DataPoints {
		outcome, _ := p.Attributes.Value("outcome")
		if limit, _ := p.Attributes.Value("limit"); limit != attribute.StringValue("card") {
			t.Errorf("limit %v, want card", limit)
		}
		units[outcome.AsString()] = p.Value
	}
	want := map[string]float64{"accepted": 10, "refused": 5, "never": 11, "spilled": 1, "shadowed": 7}
	for outcome, n := range want {
		if units[outcome] != n {
			t.Errorf("%v units %s, want %v", units[outcome], outcome, n)
		}
	}
	calls := metrics["brim.call.duration"].(metricdata.Histogram[float64])
	if p := calls.DataPoints[0]; !slices.Equal(p.Bounds, durations) {
		t.Errorf("bounds %v, want %v", p.Bounds, durations)
	}
	if p := metrics["brim.store.buckets"].(metricdata.Gauge[int64]).DataPoints; p[0].Value != 1 {
		t.Errorf("%d buckets, want 1", p[0].Value)
	}
	if p := metrics["brim.findings"].(metricdata.Gauge[int64]).DataPoints; len(p) != 1 || p[0].Value != 2 ||
		p[0].Attributes != attribute.NewSet(attribute.String("severity", "warning"), attribute.String("subject", "held rows")) {
		t.Errorf("findings %+v, want two held rows", p)
	}
	if p := metrics["brim.store.size"].(metricdata.Gauge[int64]).DataPoints; p[0].Value <= 0 {
		t.Errorf("%d bytes, want more", p[0].Value)
	}
	if len(spans) != 6 || spans[0].Name != "brim.fill" || len(spans[0].Events) != 1 || spans[3].Status.Description != "canceled" {
		t.Errorf("spans %+v; want six fills, the fourth canceled", spans)
	}
}

// TestDoc compares the metrics with their list in the documentation of the package.
func TestDoc(t *testing.T) {
	metrics, _ := collect(t, itself)
	got := slices.Collect(maps.Keys(metrics))
	ofSpend, _ := collectSpend(t)
	for series := range ofSpend {
		name, _, _ := strings.Cut(series, " ")
		got = append(got, name)
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(brim\.[\w.]+)`).FindAllSubmatch(text, -1) {
		want = append(want, string(m[1]))
	}
	slices.Sort(got)
	got = slices.Compact(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("made %v\ndocumented %v", got, want)
	}
}

// failing is a store that cannot be listed.
type failing struct{ store.Store }

func (failing) Visit(context.Context, string, func(store.Entry) bool) error {
	return store.ErrUnavailable
}

// TestBucketCounterFails collects while the store cannot be listed: the other metrics stay.
func TestBucketCounterFails(t *testing.T) {
	metrics, _ := collect(t, func(s store.Store) store.Store { return failing{s} })
	if len(metrics) != 8 || metrics["brim.store.buckets"] != nil {
		t.Errorf("%d metrics, want 8 without the gauges", len(metrics))
	}
}

func TestNew(t *testing.T) {
	if _, err := New(&Options{Limits: map[string]store.Limit{"a": named, "b": named}}); err == nil ||
		!strings.Contains(err.Error(), "two names") {
		t.Errorf("two names of a limit: %v", err)
	}
	if _, err := New(nil); err != nil {
		t.Errorf("with the global providers: %v", err)
	}
}
