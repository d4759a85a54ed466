package otelbrim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/brimgo/brim/spend"
)

// spendFailures are the labels of calls to Budgets that fail.
var spendFailures = []string{"failed", "unknown", "late", "canceled", "invalid"}

// NewSpend makes the metrics of spends and returns the hooks that feed them, for the Hooks of
// [spend.Options]; o may be nil, and its Limits and Buckets are not used. The hooks are safe for
// concurrent use, and several Budgets may share them. NewSpend fails if the MeterProvider refuses a
// metric.
func NewSpend(o *Options) (spend.Hooks, error) {
	meter, tracer := providers(o)
	var errs [7]error
	decisions, err := meter.Int64Counter("brim.spend.decisions", metric.WithDescription("Decisions on requests."))
	errs[0] = err
	declines, err := meter.Int64Counter("brim.spend.declines",
		metric.WithDescription("Rules that refused a request; no rule for a frozen account."))
	errs[1] = err
	held, err := meter.Float64Counter("brim.spend.held", metric.WithDescription("Money that was held."))
	errs[2] = err
	expired, err := meter.Float64Counter("brim.spend.expired", metric.WithDescription("Money that expired holds gave back or spent."))
	errs[3] = err
	calls, err := meter.Float64Histogram("brim.spend.call.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(durations...), metric.WithDescription("Duration of calls to Budgets."))
	errs[4] = err
	failures, err := meter.Int64Counter("brim.spend.failures", metric.WithDescription("Calls to Budgets that returned an error."))
	errs[5] = err
	ahead, err := meter.Int64Counter("brim.spend.ahead",
		metric.WithDescription("Calls on an account whose time was more than a minute ahead of the ledger's clock."))
	errs[6] = err
	if err := errors.Join(errs[:]...); err != nil {
		return spend.Hooks{}, fmt.Errorf("otelbrim: %w", err)
	}
	for _, outcome := range spendFailures { // a series that begins with the first failure would hide it from a rate
		failures.Add(context.Background(), 0, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	ahead.Add(context.Background(), 0)
	return spend.Hooks{
		Start: func(ctx context.Context, c spend.Call) context.Context {
			ctx, _ = tracer.Start(ctx, "brim.spend."+c.Method, trace.WithSpanKind(trace.SpanKindClient))
			return ctx
		},
		Decision: func(ctx context.Context, c spend.Call, d spend.Decision) {
			budget, outcome := attribute.String("budget", c.Budget), attribute.String("outcome", d.Label())
			decisions.Add(ctx, 1, metric.WithAttributes(budget, attribute.String("method", c.Method), outcome))
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.AddEvent("decision", trace.WithAttributes(budget, outcome))
			}
			if d.Replayed {
				return // its rules were counted the first time
			}
			for i := range d.Declines {
				declines.Add(ctx, 1, metric.WithAttributes(
					attribute.String("budget", d.Declines[i].Budget), attribute.String("rule", d.Declines[i].Rule)))
			}
		},
		Hold: func(ctx context.Context, _ spend.Call, h spend.Hold) {
			moved := held
			if h.Expired {
				moved = expired
			}
			currency, _, _ := strings.Cut(h.Amount.Currency, ":")
			places, _ := h.Amount.Places()
			moved.Add(ctx, float64(h.Amount.Minor)/math.Pow10(places), metric.WithAttributes(
				attribute.String("budget", h.Budget), attribute.String("currency", currency)))
		},
		End: func(ctx context.Context, c spend.Call, o spend.Outcome) {
			calls.Record(ctx, o.Took.Seconds(), metric.WithAttributes(attribute.String("method", c.Method)))
			if o.Ahead > time.Minute {
				ahead.Add(ctx, 1)
			}
			if o.Err != nil {
				failures.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", o.Label())))
			}
			endSpan(ctx, o.Label(), o.Err)
		},
	}, nil
}
