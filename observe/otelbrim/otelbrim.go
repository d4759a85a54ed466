package otelbrim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// scope is the name under which the metrics and spans appear.
const scope = "github.com/brimgo/brim/observe/otelbrim"

// Options adjust the metrics and spans. The zero value selects the defaults.
type Options struct {
	// MeterProvider and TracerProvider take the metrics and the spans. Nil means OpenTelemetry's
	// global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Limits maps names to limits. The attribute "limit" of a metric is the name of the bucket's
	// limit, or "other" if the limit has no name. Two names of one limit are an error.
	Limits map[string]store.Limit
	// Buckets counts the buckets of the store, for three gauges. A collection waits at most a
	// second for the first count. It leaves the gauges out while there is no count, and after a
	// count that failed. Without a BucketCounter there are no such gauges. The caller closes it.
	Buckets *observe.BucketCounter
	// Findings returns the findings of the last check, for a gauge that counts them by severity and
	// subject. A collection calls it, so the program checks elsewhere, for instance every minute by
	// postgres.Check, and keeps the list. Without it there is no such gauge.
	Findings func() []store.Finding
}

// The upper bounds of the histograms, which are fixed so that dashboards and alerts fit every
// program. Those of package prombrim are the same.
var (
	ratios    = []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}
	waits     = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600}
	durations = []float64{
		0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
	requests = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// other is the attribute "limit" of buckets whose limit has no name.
const other = "other"

// instruments are the metrics.
type instruments struct {
	decisions metric.Int64Counter
	units     metric.Float64Counter
	ratio     metric.Float64Histogram
	wait      metric.Float64Histogram
	calls     metric.Float64Histogram
	flushes   metric.Int64Histogram
	retries   metric.Int64Counter
	limits    map[store.Limit]string
	quotas    []store.Limit // of these limits, the quotas of the calendar
}

// providers returns the meter and the tracer of the options, which may be nil.
func providers(o *Options) (metric.Meter, trace.Tracer) {
	if o == nil {
		o = &Options{}
	}
	meters, tracers := o.MeterProvider, o.TracerProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	return meters.Meter(scope), tracers.Tracer(scope)
}

// New makes the metrics and returns the hooks that feed them; o may be nil. Give the hooks to
// [observe.New], and their Trace to the backend's options. The hooks are safe for concurrent use.
// New fails if a limit has two names in [Options.Limits], or if the MeterProvider refuses a metric.
func New(o *Options) (observe.Hooks, error) {
	if o == nil {
		o = &Options{}
	}
	meter, tracer := providers(o)
	m := &instruments{limits: make(map[store.Limit]string)}
	for name, l := range o.Limits {
		if first, is := m.limits[l]; is {
			return observe.Hooks{}, fmt.Errorf("otelbrim: the limit %+v has two names, %q and %q: keep one", l, first, name)
		}
		m.limits[l] = name
		if l.Calendar() {
			m.quotas = append(m.quotas, l)
		}
	}
	slices.SortFunc(m.quotas, func(a, b store.Limit) int { return strings.Compare(m.limits[a], m.limits[b]) })
	err := m.create(meter)
	if err == nil && o.Buckets != nil {
		err = watch(meter, o.Buckets)
	}
	if err == nil && o.Findings != nil {
		err = watchFindings(meter, o.Findings)
	}
	if err != nil {
		return observe.Hooks{}, fmt.Errorf("otelbrim: %w", err)
	}
	return observe.Hooks{
		Start: func(ctx context.Context, c observe.Call) context.Context {
			ctx, _ = tracer.Start(ctx, "brim."+string(c.Method), trace.WithSpanKind(trace.SpanKindClient),
				trace.WithAttributes(attribute.Int("brim.size", c.Size)))
			return ctx
		},
		Decision: m.decision,
		End:      m.end,
		Flush: func(f store.Flush) {
			m.flushes.Record(context.Background(), int64(f.Requests), metric.WithAttributes(
				attribute.String("backend", f.Backend),
				attribute.String("outcome", observe.Outcome{Err: f.Err}.Label())))
		},
		Retry: func(r store.Retry) {
			m.retries.Add(context.Background(), 1, metric.WithAttributes(attribute.String("backend", r.Backend)))
		},
	}, nil
}

// create makes the instruments.
func (m *instruments) create(meter metric.Meter) error {
	var errs [7]error
	m.decisions, errs[0] = meter.Int64Counter("brim.decisions", metric.WithDescription("Operations decided."))
	m.units, errs[1] = meter.Float64Counter("brim.units",
		metric.WithDescription("Units that went in, or stayed outside."))
	m.ratio, errs[2] = meter.Float64Histogram("brim.fill.ratio", metric.WithExplicitBucketBoundaries(ratios...),
		metric.WithDescription("Level and held units over capacity, after each decision."))
	m.wait, errs[3] = meter.Float64Histogram("brim.retry_after", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(waits...),
		metric.WithDescription("Waits of refused callers, without endless ones."))
	m.calls, errs[4] = meter.Float64Histogram("brim.call.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(durations...), metric.WithDescription("Duration of calls to the store."))
	m.flushes, errs[5] = meter.Int64Histogram("brim.flush.requests", metric.WithExplicitBucketBoundaries(requests...),
		metric.WithDescription("Callers that shared a commit."))
	m.retries, errs[6] = meter.Int64Counter("brim.retries",
		metric.WithDescription("Attempts of which nothing was applied."))
	return errors.Join(errs[:]...)
}

// decision counts a decision and adds it to the span of its call.
func (m *instruments) decision(ctx context.Context, d observe.Decision) {
	name, is := m.limits[d.Limit]
	if !d.Begins.IsZero() {
		if i := slices.IndexFunc(m.quotas, d.Under); i >= 0 {
			name, is = m.limits[m.quotas[i]], true
		}
	}
	if !is {
		name = other
	}
	limit, label := attribute.String("limit", name), d.Label()
	both := metric.WithAttributeSet(attribute.NewSet(limit, attribute.String("outcome", label)))
	m.decisions.Add(ctx, 1, both)
	if label == "spilled" {
		accepted := metric.WithAttributeSet(attribute.NewSet(limit, attribute.String("outcome", "accepted")))
		spilled := min(d.State.Spilled, d.Amount) // rounding can make Spilled the larger one, and a counter must not fall
		m.units.Add(ctx, d.Amount-spilled, accepted)
		m.units.Add(ctx, spilled, both)
	} else {
		m.units.Add(ctx, max(0, d.Amount), both)
	}
	alone := metric.WithAttributeSet(attribute.NewSet(limit))
	if d.State.Capacity > 0 {
		m.ratio.Record(ctx, (d.State.Level+d.State.Held)/d.State.Capacity, alone)
	}
	if wait := d.State.RetryAfter; wait > 0 && wait < store.Never {
		m.wait.Record(ctx, wait.Seconds(), alone)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("decision", trace.WithAttributes(limit, attribute.String("outcome", label)))
	}
}

// end records the duration of a call and ends its span.
func (m *instruments) end(ctx context.Context, c observe.Call, o observe.Outcome) {
	label := o.Label()
	m.calls.Record(ctx, o.Took.Seconds(), metric.WithAttributeSet(attribute.NewSet(
		attribute.String("method", string(c.Method)), attribute.String("outcome", label))))
	endSpan(ctx, label, o.Err)
}

// endSpan ends the span of a call.
func endSpan(ctx context.Context, label string, err error) {
	span := trace.SpanFromContext(ctx)
	if err != nil {
		span.SetStatus(codes.Error, label)
		span.RecordError(err) // the errors of brim contain no keys
	}
	span.End()
}

// firstCount limits the time that a collection waits for the first count.
const firstCount = time.Second

// watch makes gauges of the counts of a BucketCounter.
func watch(meter metric.Meter, c *observe.BucketCounter) error {
	var errs [4]error
	buckets, err := meter.Int64ObservableGauge("brim.store.buckets", metric.WithDescription("Buckets in the store."))
	errs[0] = err
	bytes, err := meter.Int64ObservableGauge("brim.store.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes that the buckets take where the store keeps them."))
	errs[1] = err
	age, err := meter.Float64ObservableGauge("brim.store.buckets.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the buckets were counted."))
	errs[2] = err
	_, errs[3] = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, firstCount)
		defer cancel()
		n, err := c.Count(ctx)
		if err != nil {
			return nil // after an error, a PeriodicReader exports no metric at all
		}
		o.ObserveInt64(buckets, n.Buckets)
		if n.Bytes >= 0 {
			o.ObserveInt64(bytes, n.Bytes)
		}
		o.ObserveFloat64(age, time.Since(n.At).Seconds())
		return nil
	}, buckets, bytes, age)
	return errors.Join(errs[:]...)
}

// watchFindings makes a gauge of the findings of the last check.
func watchFindings(meter metric.Meter, last func() []store.Finding) error {
	_, err := meter.Int64ObservableGauge("brim.findings", metric.WithDescription("Findings of the last check."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			count := make(map[attribute.Set]int64)
			for _, f := range last() {
				count[attribute.NewSet(attribute.String("severity", f.Severity.String()), attribute.String("subject", f.Subject))]++
			}
			for of, n := range count {
				o.Observe(n, metric.WithAttributeSet(of))
			}
			return nil
		}))
	return err
}
