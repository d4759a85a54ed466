// Package observability tests the dashboard and the alerts against the metrics of package prombrim.
package observability

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// registered returns the names of the time series that a program has, with their labels and those
// that Prometheus adds. Each label has the values that the program gives it.
func registered(t *testing.T) map[string]map[string][]string {
	t.Helper()
	s := memory.New(nil)
	defer s.Close()
	counter := observe.NewBucketCounter(s)
	defer counter.Close()
	reg := prometheus.NewRegistry()
	h, err := prombrim.New(reg, &prombrim.Options{Buckets: counter, Findings: func() []store.Finding {
		return []store.Finding{{Subject: "held rows"}, {Subject: "old transaction"}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := observe.New(s, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := brim.New(wrapped, nil).TryFillup(t.Context(), brim.Limit{Capacity: 1}.For("a"), 1); err != nil {
		t.Fatal(err)
	}
	ofSpend, err := prombrim.NewSpend(reg)
	if err != nil {
		t.Fatal(err)
	}
	spends(t, ofSpend)
	fills := []brim.Fill{{Bucket: brim.Limit{Capacity: 1}.For("b"), Amount: 1}, {Bucket: brim.Limit{Capacity: 1}.For("c"), Amount: 1}}
	if _, err := brim.New(wrapped, nil).TryFillupAll(t.Context(), fills...); err != nil {
		t.Fatal(err)
	}
	h.Flush(store.Flush{Backend: "bolt", Requests: 1})
	h.Retry(store.Retry{Backend: "bolt", Attempt: 1})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]map[string][]string)
	for _, f := range families {
		with := map[string][]string{"job": nil, "instance": nil}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				with[l.GetName()] = append(with[l.GetName()], l.GetValue())
			}
		}
		if f.GetMetric()[0].GetHistogram() == nil {
			series[f.GetName()] = with
			continue
		}
		series[f.GetName()+"_sum"], series[f.GetName()+"_count"] = with, with
		series[f.GetName()+"_bucket"] = maps.Clone(with)
		series[f.GetName()+"_bucket"]["le"] = nil
	}
	return series
}

// spends makes calls of each kind to Budgets with the hooks.
func spends(t *testing.T, hooks spend.Hooks) {
	t.Helper()
	ctx, eur := t.Context(), spend.Money{Minor: 100, Currency: "EUR"}
	now := time.Now()
	b, err := spend.New(ctx, memledger.New(&memledger.Options{Clock: func() time.Time { return now }}), spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("hour", spend.Money{Minor: 500, Currency: "EUR"}, time.Hour)},
	}, &spend.Options{Hooks: []spend.Hooks{hooks}})
	if err != nil {
		t.Fatal(err)
	}
	request := func(id string) spend.Request { return spend.Request{ID: id, Account: "card:7", Amount: eur} }
	forced := request("forced")
	forced.Forced = true
	for _, call := range []func() error{
		func() error { _, err := b.Charge(ctx, request("charge")); return err },
		func() error { _, err := b.Charge(ctx, request("charge")); return err },
		func() error { return b.ChargeAll(ctx, []spend.Request{request("all")})[0].Err },
		func() error { _, err := b.Authorize(ctx, request("authorize")); return err },
		func() error {
			_, err := b.UpTo(ctx, spend.UpToRequest{Request: request("up to"), Least: eur, Hold: true})
			return err
		},
		func() error {
			_, err := b.Increase(ctx, spend.IncreaseRequest{ID: "increase", HoldID: "up to", Amount: eur})
			return err
		},
		func() error { _, err := b.Authorize(ctx, forced); return err },
		func() error { _, err := b.Charge(ctx, request("declined")); return err },
		func() error { _, err := b.Cancel(ctx, "charge", "card:7"); return err },
		func() error { now = now.Add(30 * 24 * time.Hour); _, err := b.Prune(ctx); return err },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
}

// check tests that an expression uses registered series and their labels only, and notes the
// series.
func check(t *testing.T, where, expression string, series map[string]map[string][]string, used map[string]bool) {
	t.Helper()
	// Grafana replaces its variables before it asks.
	expression = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*").Replace(expression)
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expression)
		return
	}
	var known []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		with, is := series[selector.Name]
		if !is {
			t.Errorf("%s: no program has %s", where, selector.Name)
		}
		used[selector.Name] = true
		known = slices.AppendSeq(known, maps.Keys(with))
		for _, m := range selector.LabelMatchers {
			values, is := with[m.Name]
			if m.Name != labels.MetricName && !is {
				t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
			}
			for value := range strings.SplitSeq(m.Value, "|") {
				if is && values != nil && value != "" && !slices.Contains(values, value) {
					t.Errorf("%s: no program gives the label %s of %s the value %s", where, m.Name, selector.Name, value)
				}
			}
		}
		return nil
	})
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if by, is := node.(*parser.AggregateExpr); is {
			for _, l := range by.Grouping {
				if !slices.Contains(known, l) {
					t.Errorf("%s: no series has the label %s of %s", where, l, expression)
				}
			}
		}
		return nil
	})
}

// TestDashboard reads every panel. Each metric must have one.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	series, used := registered(t), make(map[string]bool)
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %+v: want a title, a description and something to show", p)
		}
		for _, target := range p.Targets {
			check(t, p.Title, target.Expr, series, used)
		}
	}
	for name := range series {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		if !used[name] && !used[base+"_bucket"] && !used[base+"_count"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestAlerts reads every rule as Prometheus does.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) != 1 {
		t.Fatalf("%+v: want one group", groups)
	}
	series := registered(t)
	for _, r := range groups.Groups[0].Rules {
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s: want a summary, a description and a severity", r.Alert)
		}
		check(t, r.Alert, r.Expr, series, make(map[string]bool))
	}
}

// TestGuide tests that the code of docs/observability.md for Prometheus is that of the demo.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	demo, err := os.ReadFile("demo/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(guide), "## Metrics")
	_, code, _ = strings.Cut(code, "```go\n")
	code, _, is := strings.Cut(code, "```")
	if indented := "\t" + strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n\t"); !is || !strings.Contains(string(demo), indented) {
		t.Errorf("the demo does not contain the code of the guide:\n%s", code)
	}
}

// TestCheckFinds tests that check finds a wrong name, a wrong label, a wrong value of one and a
// wrong grouping.
func TestCheckFinds(t *testing.T) {
	series := registered(t)
	for _, expression := range []string{
		"brim_decision_total", `brim_decisions_total{result="x"}`, "sum by (key) (brim_decisions_total)", "sum(",
		`brim_spend_decisions_total{method=~"charge|undo"}`,
	} {
		probe := new(testing.T)
		check(probe, "probe", expression, series, make(map[string]bool))
		if !probe.Failed() {
			t.Errorf("%s: not found", expression)
		}
	}
}
