package prombrim

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim/spend"
)

// spendFailures are the labels of calls to Budgets that fail.
var spendFailures = []string{"failed", "unknown", "late", "canceled", "invalid"}

// NewSpend registers the metrics of spends with reg and returns the hooks that feed them, for the
// Hooks of [spend.Options]. The hooks are safe for concurrent use, and several Budgets may share
// them. NewSpend fails if reg is nil, or if a metric is registered already.
func NewSpend(reg prometheus.Registerer) (spend.Hooks, error) {
	if reg == nil {
		return spend.Hooks{}, errNoRegisterer
	}
	decisions := counter("brim_spend_decisions_total", "Decisions on requests.", "budget", "method", "outcome")
	declines := counter("brim_spend_declines_total", "Rules that refused a request; no rule for a frozen account.", "budget", "rule")
	held := counter("brim_spend_held_total", "Money that was held.", "budget", "currency")
	expired := counter("brim_spend_expired_total", "Money that expired holds gave back or spent.", "budget", "currency")
	calls := histogram("brim_spend_call_duration_seconds", "Duration of calls to Budgets.", durations, "method")
	failures := counter("brim_spend_failures_total", "Calls to Budgets that returned an error.", "outcome")
	ahead := counter("brim_spend_ahead_total", "Calls on an account whose time was more than a minute ahead of the ledger's clock.")
	if err := register(reg, decisions, declines, held, expired, calls, failures, ahead); err != nil {
		return spend.Hooks{}, err
	}
	for _, outcome := range spendFailures {
		failures.WithLabelValues(outcome) // a series that begins with the first failure would hide it from rate()
	}
	ahead.WithLabelValues()
	return spend.Hooks{
		Decision: func(_ context.Context, c spend.Call, d spend.Decision) {
			decisions.WithLabelValues(c.Budget, c.Method, d.Label()).Inc()
			if d.Replayed {
				return // its rules were counted the first time
			}
			for i := range d.Declines {
				declines.WithLabelValues(d.Declines[i].Budget, d.Declines[i].Rule).Inc()
			}
		},
		Hold: func(_ context.Context, _ spend.Call, h spend.Hold) {
			moved := held
			if h.Expired {
				moved = expired
			}
			currency, _, _ := strings.Cut(h.Amount.Currency, ":")
			places, _ := h.Amount.Places()
			moved.WithLabelValues(h.Budget, currency).Add(float64(h.Amount.Minor) / math.Pow10(places))
		},
		End: func(_ context.Context, c spend.Call, o spend.Outcome) {
			calls.WithLabelValues(c.Method).Observe(o.Took.Seconds())
			if o.Ahead > time.Minute {
				ahead.WithLabelValues().Inc()
			}
			if o.Err != nil {
				failures.WithLabelValues(o.Label()).Inc()
			}
		},
	}, nil
}
