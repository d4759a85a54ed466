package observability

import (
	"context"
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// Prometheus returns hooks that feed metrics, and registers them with reg.
func Prometheus(reg prometheus.Registerer) (observe.Hooks, error) {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brim_decisions_total", Help: "Operations decided.",
	}, []string{"accepted", "estimate"})
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "brim_retry_after_seconds", Help: "Waits of refused callers, without infinite ones.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
	})
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "brim_call_seconds", Help: "Duration of calls to the store.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 12),
	}, []string{"method", "outcome"})
	flushes := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "brim_flush_requests", Help: "Callers that shared a commit.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	}, []string{"backend"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brim_retries_total", Help: "Retries of requests that were not applied.",
	}, []string{"backend"})
	for _, c := range []prometheus.Collector{decisions, waits, calls, flushes, retries} {
		if err := reg.Register(c); err != nil {
			return observe.Hooks{}, err
		}
	}
	return observe.Hooks{
		Decision: func(_ context.Context, d observe.Decision) {
			decisions.WithLabelValues(strconv.FormatBool(d.Accepted), strconv.FormatBool(d.State.Estimate)).Inc()
			if wait := d.State.RetryAfter; wait > 0 && wait != store.Never {
				waits.Observe(wait.Seconds())
			}
		},
		End: func(_ context.Context, c observe.Call, o observe.Outcome) {
			calls.WithLabelValues(string(c.Method), outcome(o.Err)).Observe(o.Took.Seconds())
		},
		Flush: func(f store.Flush) { flushes.WithLabelValues(f.Backend).Observe(float64(f.Requests)) },
		Retry: func(r store.Retry) { retries.WithLabelValues(r.Backend).Inc() },
	}, nil
}

// outcome returns a label for err that has few values.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrUnknownOutcome): // first: it may wrap an error of the context
		return "unknown"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	}
	return "failed"
}
