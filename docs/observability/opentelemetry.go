package observability

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// OpenTelemetry returns hooks that start a span for each call and feed metrics.
func OpenTelemetry(tracer trace.Tracer, meter metric.Meter) (observe.Hooks, error) {
	decisions, err := meter.Int64Counter("brim.decisions", metric.WithDescription("Operations decided."))
	if err != nil {
		return observe.Hooks{}, err
	}
	calls, err := meter.Float64Histogram("brim.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls to the store."))
	if err != nil {
		return observe.Hooks{}, err
	}
	flushes, err := meter.Int64Histogram("brim.flush.requests", metric.WithDescription("Callers that shared a commit."))
	if err != nil {
		return observe.Hooks{}, err
	}
	retries, err := meter.Int64Counter("brim.retries", metric.WithDescription("Retries of requests that were not applied."))
	if err != nil {
		return observe.Hooks{}, err
	}
	return observe.Hooks{
		Start: func(ctx context.Context, c observe.Call) context.Context {
			ctx, _ = tracer.Start(ctx, "brim."+string(c.Method), trace.WithSpanKind(trace.SpanKindClient),
				trace.WithAttributes(attribute.Int("brim.size", c.Size)))
			return ctx
		},
		Decision: func(ctx context.Context, d observe.Decision) {
			accepted := attribute.Bool("accepted", d.Accepted)
			decisions.Add(ctx, 1, metric.WithAttributes(accepted, attribute.Bool("estimate", d.State.Estimate)))
			trace.SpanFromContext(ctx).AddEvent("decision", trace.WithAttributes(accepted))
		},
		End: func(ctx context.Context, c observe.Call, o observe.Outcome) {
			calls.Record(ctx, o.Took.Seconds(), metric.WithAttributes(
				attribute.String("method", string(c.Method)), attribute.String("outcome", outcome(o.Err))))
			span := trace.SpanFromContext(ctx)
			if o.Err != nil {
				span.SetStatus(codes.Error, outcome(o.Err))
				span.RecordError(o.Err) // errors hold no keys
			}
			span.End()
		},
		Flush: func(f store.Flush) {
			flushes.Record(context.Background(), int64(f.Requests), metric.WithAttributes(attribute.String("backend", f.Backend)))
		},
		Retry: func(r store.Retry) {
			retries.Add(context.Background(), 1, metric.WithAttributes(attribute.String("backend", r.Backend)))
		},
	}, nil
}
