package observability

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// drive makes an accepted call, a refused call and a failed call.
func drive(t *testing.T, h observe.Hooks) {
	t.Helper()
	m, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := observe.New(m, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lim := brim.New(s, nil)
	b := brim.Limit{Capacity: 10, LeakRate: 1}.For("card:4711")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx context.Context
		n   float64
	}{{t.Context(), 10}, {t.Context(), 5}, {done, 1}} {
		if _, err := lim.TryFillup(c.ctx, b, c.n); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	trace := h.Trace()
	trace.Flush(store.Flush{Backend: "bolt", Requests: 3})
	trace.Retry(store.Retry{Backend: "bolt", Attempt: 1, Err: store.ErrUnavailable})
}

func TestPrometheus(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h, err := Prometheus(reg)
	if err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP brim_decisions_total Operations decided.
# TYPE brim_decisions_total counter
brim_decisions_total{accepted="false",estimate="false"} 1
brim_decisions_total{accepted="true",estimate="false"} 1
# HELP brim_retries_total Retries of requests that were not applied.
# TYPE brim_retries_total counter
brim_retries_total{backend="bolt"} 1
`), "brim_decisions_total", "brim_retries_total"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		if strings.Contains(f.String(), "4711") {
			t.Errorf("%s holds the key", f.GetName())
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				counts[f.GetName()] += h.GetSampleCount()
			}
		}
	}
	if counts["brim_call_seconds"] != 3 || counts["brim_retry_after_seconds"] != 1 || counts["brim_flush_requests"] != 1 {
		t.Errorf("counted %v; want 3 calls, 1 wait, 1 flush", counts)
	}
	if _, err := Prometheus(reg); err == nil {
		t.Error("registering twice: no error")
	}
}

func TestOpenTelemetry(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { _ = tp.Shutdown(context.Background()) }()
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = mp.Shutdown(context.Background()) }()
	h, err := OpenTelemetry(tp.Tracer("brim"), mp.Meter("brim"))
	if err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	got := spans.GetSpans()
	if len(got) != 3 || got[0].Name != "brim.fill" || len(got[0].Events) != 1 || got[2].Status.Description != "canceled" {
		t.Errorf("spans %+v; want three fills, the last one canceled", got)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			names[m.Name] = true
		}
	}
	for _, name := range []string{"brim.decisions", "brim.call.duration", "brim.flush.requests", "brim.retries"} {
		if !names[name] {
			t.Errorf("%s is missing in %v", name, names)
		}
	}
}

// TestGuide checks that the guide quotes these files word for word.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range []string{"prometheus.go", "opentelemetry.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	shown := 0
	for i, block := range strings.Split(string(guide), "```") {
		text, is := strings.CutPrefix(block, "go file\n")
		if i%2 == 0 || !is {
			continue
		}
		shown++
		if !strings.Contains(code.String(), text) {
			t.Errorf("the guide quotes code that is not in the files:\n%s", text)
		}
	}
	if shown != 2 {
		t.Errorf("the guide quotes the files %d times, want 2", shown)
	}
}
