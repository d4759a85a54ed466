package prombrim

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/brimgo/brim/observe/internal/sample"
)

func TestSpendMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h, err := NewSpend(reg)
	if err != nil {
		t.Fatal(err)
	}
	sample.Spends(t, h)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP brim_spend_ahead_total Calls on an account whose time was more than a minute ahead of the ledger's clock.
# TYPE brim_spend_ahead_total counter
brim_spend_ahead_total 1
# HELP brim_spend_decisions_total Decisions on requests.
# TYPE brim_spend_decisions_total counter
brim_spend_decisions_total{budget="tokens",method="authorize",outcome="approved"} 1
brim_spend_decisions_total{budget="tokens",method="authorize",outcome="declined"} 1
brim_spend_decisions_total{budget="tokens",method="authorize",outcome="never"} 1
brim_spend_decisions_total{budget="tokens",method="authorize",outcome="replayed"} 1
brim_spend_decisions_total{budget="tokens",method="authorize_forced",outcome="approved"} 1
brim_spend_decisions_total{budget="tokens",method="cancel",outcome="approved"} 1
brim_spend_decisions_total{budget="tokens",method="charge",outcome="approved"} 2
# HELP brim_spend_declines_total Rules that refused a request; no rule for a frozen account.
# TYPE brim_spend_declines_total counter
brim_spend_declines_total{budget="tokens",rule="day"} 2
# HELP brim_spend_expired_total Money that expired holds gave back or spent.
# TYPE brim_spend_expired_total counter
brim_spend_expired_total{budget="tokens",currency="USD"} 4.5
# HELP brim_spend_failures_total Calls to Budgets that returned an error.
# TYPE brim_spend_failures_total counter
brim_spend_failures_total{outcome="canceled"} 0
brim_spend_failures_total{outcome="failed"} 0
brim_spend_failures_total{outcome="invalid"} 1
brim_spend_failures_total{outcome="late"} 0
brim_spend_failures_total{outcome="unknown"} 0
# HELP brim_spend_held_total Money that was held.
# TYPE brim_spend_held_total counter
brim_spend_held_total{budget="tokens",currency="USD"} 24.5
`), "brim_spend_ahead_total", "brim_spend_decisions_total", "brim_spend_declines_total", "brim_spend_expired_total", "brim_spend_failures_total",
		"brim_spend_held_total"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]uint64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "brim_spend_call_duration_seconds" {
				calls[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if len(calls) != 5 || calls["authorize"] != 5 || calls["prune"] != 1 {
		t.Errorf("the calls are %v", calls)
	}
	if _, err := NewSpend(reg); err == nil {
		t.Error("the metrics were registered twice")
	}
	if _, err := NewSpend(nil); err == nil {
		t.Error("there was no Registerer")
	}
}
