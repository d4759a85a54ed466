package prombrim

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/internal/sample"
	"github.com/brimgo/brim/store"
)

var (
	named   = brim.Limit{Capacity: 10, LeakRate: 1}
	unnamed = brim.Limit{Capacity: 20}
)

// drive makes one call of each outcome, and a flush and a retry as backends tell them.
func drive(t *testing.T, s store.Store, h observe.Hooks) {
	t.Helper()
	wrapped, err := observe.New(s, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	lim := brim.New(wrapped, nil)
	card, other := named.For("card:4711"), unnamed.For("card:4712")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		bucket brim.Bucket
		n      float64
	}{{t.Context(), card, 8}, {t.Context(), card, 5}, {t.Context(), card, 11}, {t.Context(), other, 1}, {done, card, 1}} {
		if _, err := lim.TryFillup(c.ctx, c.bucket, c.n); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if st, err := lim.Fillup(t.Context(), card, 3); err != nil || st.Spilled == 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	if _, err := lim.Block(t.Context(), card.Key, 1e9); err != nil {
		t.Fatal(err)
	}
	if _, err := lim.TryFillup(t.Context(), card, 1); err != nil {
		t.Fatal(err)
	}
	tried := brim.New(wrapped, &brim.Options{Shadow: func(context.Context, brim.Fill, error) {}})
	if st, err := tried.TryFillup(t.Context(), card, 7); err != nil || !st.Accepted {
		t.Fatalf("%+v, %v", st, err)
	}
	trace := h.Trace()
	trace.Flush(store.Flush{Backend: "bolt", Requests: 3})
	trace.Flush(store.Flush{Backend: "bolt", Requests: 2, Err: store.ErrUnavailable})
	trace.Retry(store.Retry{Backend: "bolt", Attempt: 1, Err: store.ErrUnavailable})
}

// newStore returns a store whose clock stands.
func newStore(t *testing.T) store.Store {
	t.Helper()
	s := memory.New(&memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func someFindings() []store.Finding {
	return []store.Finding{
		{Severity: store.Broken, Subject: "rights"}, {Severity: store.Warning, Subject: "held rows"}, {Severity: store.Warning, Subject: "held rows"},
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := newStore(t)
	counter := observe.NewBucketCounter(s)
	defer counter.Close()
	o := &Options{Limits: map[string]store.Limit{"card": named}, Buckets: counter, Findings: someFindings}
	h, err := New(reg, o)
	if err != nil {
		t.Fatal(err)
	}
	drive(t, s, h)
	counted(t, counter)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP brim_decisions_total Operations decided.
# TYPE brim_decisions_total counter
brim_decisions_total{limit="card",outcome="accepted"} 1
brim_decisions_total{limit="card",outcome="blocked"} 1
brim_decisions_total{limit="card",outcome="never"} 1
brim_decisions_total{limit="card",outcome="refused"} 1
brim_decisions_total{limit="card",outcome="shadowed"} 1
brim_decisions_total{limit="card",outcome="spilled"} 1
brim_decisions_total{limit="other",outcome="accepted"} 1
brim_decisions_total{limit="other",outcome="blocked"} 0
brim_decisions_total{limit="other",outcome="never"} 0
brim_decisions_total{limit="other",outcome="refused"} 0
brim_decisions_total{limit="other",outcome="shadowed"} 0
brim_decisions_total{limit="other",outcome="spilled"} 0
# HELP brim_units_total Units that went in, or stayed outside.
# TYPE brim_units_total counter
brim_units_total{limit="card",outcome="accepted"} 10
brim_units_total{limit="card",outcome="blocked"} 1
brim_units_total{limit="card",outcome="never"} 11
brim_units_total{limit="card",outcome="refused"} 5
brim_units_total{limit="card",outcome="shadowed"} 7
brim_units_total{limit="card",outcome="spilled"} 1
brim_units_total{limit="other",outcome="accepted"} 1
brim_units_total{limit="other",outcome="blocked"} 0
brim_units_total{limit="other",outcome="never"} 0
brim_units_total{limit="other",outcome="refused"} 0
brim_units_total{limit="other",outcome="shadowed"} 0
brim_units_total{limit="other",outcome="spilled"} 0
# HELP brim_retries_total Attempts of which nothing was applied.
# TYPE brim_retries_total counter
brim_retries_total{backend="bolt"} 1
# HELP brim_store_buckets Buckets in the store.
# TYPE brim_store_buckets gauge
brim_store_buckets 2
# HELP brim_findings Findings of the last check.
# TYPE brim_findings gauge
brim_findings{severity="broken",subject="rights"} 1
brim_findings{severity="warning",subject="held rows"} 2
`), "brim_findings", "brim_decisions_total", "brim_units_total", "brim_retries_total", "brim_store_buckets"); err != nil {
		t.Error(err)
	}

	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	histograms := map[string]uint64{
		"brim_fill_ratio": 7, "brim_retry_after_seconds": 4, "brim_call_duration_seconds": 9, "brim_flush_requests": 2,
	}
	for _, f := range families {
		if strings.Contains(f.String(), "card:4711") {
			t.Errorf("%s contains a key", f.GetName())
		}
		var count uint64
		for _, m := range f.GetMetric() {
			count += m.GetHistogram().GetSampleCount()
		}
		if count != histograms[f.GetName()] {
			t.Errorf("%s has %d samples, want %d", f.GetName(), count, histograms[f.GetName()])
		}
		delete(histograms, f.GetName())
		if f.GetName() == "brim_call_duration_seconds" {
			series := make(map[string]int)
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "method" {
						series[l.GetValue()]++
					}
				}
			}
			for method, n := range series {
				if n < 2 { // rate() must see the first failure
					t.Errorf("%s has no series for calls that fail", method)
				}
			}
		}
		if f.GetName() == "brim_store_size_bytes" && f.GetMetric()[0].GetGauge().GetValue() <= 0 {
			t.Errorf("%v: want a size above 0", f)
		}
	}
	if len(histograms) > 0 {
		t.Errorf("no samples of %v", histograms)
	}
}

// TestSpillOfAll fills a full bucket with an amount of which 0.3000000000000007 units spill, by the
// rounding of doubles. A counter of prometheus panics if it should fall.
func TestSpillOfAll(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h, err := New(reg, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := observe.New(newStore(t), h, nil)
	if err != nil {
		t.Fatal(err)
	}
	lim := brim.New(s, nil)
	for _, n := range []float64{10, 0.3} {
		if _, err := lim.Fillup(t.Context(), named.For("card:4711"), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP brim_units_total Units that went in, or stayed outside.
# TYPE brim_units_total counter
brim_units_total{limit="other",outcome="accepted"} 10
brim_units_total{limit="other",outcome="blocked"} 0
brim_units_total{limit="other",outcome="never"} 0
brim_units_total{limit="other",outcome="refused"} 0
brim_units_total{limit="other",outcome="shadowed"} 0
brim_units_total{limit="other",outcome="spilled"} 0.3
`), "brim_units_total"); err != nil {
		t.Error(err)
	}
}

// counted waits for the first count, for which a scrape waits a second only.
func counted(t *testing.T, c *observe.BucketCounter) {
	t.Helper()
	if _, err := c.Count(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDoc compares the metrics with their list in the documentation of the package.
func TestDoc(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := newStore(t)
	counter := observe.NewBucketCounter(s)
	defer counter.Close()
	h, err := New(reg, &Options{Buckets: counter, Findings: someFindings})
	if err != nil {
		t.Fatal(err)
	}
	drive(t, s, h)
	counted(t, counter)
	ofSpend, err := NewSpend(reg)
	if err != nil {
		t.Fatal(err)
	}
	sample.Spends(t, ofSpend)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(brim_\w+)`).FindAllSubmatch(text, -1) {
		want = append(want, string(m[1]))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("registered %v\ndocumented %v", got, want)
	}
}

// failing is a store that cannot be listed.
type failing struct{ store.Store }

func (failing) Visit(context.Context, string, func(store.Entry) bool) error {
	return store.ErrUnavailable
}

// TestBucketCounterFails scrapes while the store is away: the other metrics stay.
func TestBucketCounterFails(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	counter := observe.NewBucketCounter(failing{newStore(t)})
	defer counter.Close()
	if _, err := New(reg, &Options{Buckets: counter}); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 4 { // decisions, units, ratio and wait, each of "other"
		t.Errorf("%d families, %v; want 4 without the gauges", len(families), err)
	}
}

func TestNewFails(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	if _, err := New(reg, &Options{Limits: map[string]store.Limit{"a": named, "b": named}}); err == nil ||
		!strings.Contains(err.Error(), "two names") {
		t.Errorf("two names of a limit: %v", err)
	}
	if _, err := New(reg, &Options{Limits: map[string]store.Limit{"a\xff": named}}); err == nil ||
		!strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a name that no label can have: %v", err)
	}
	if _, err := New(nil, nil); err == nil || !strings.Contains(err.Error(), "Registerer is nil") {
		t.Errorf("no registry: %v", err)
	}
	taken := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brim_retries_total", Help: "Attempts of which nothing was applied.",
	}, []string{"backend"})
	reg.MustRegister(taken)
	if _, err := New(reg, nil); err == nil {
		t.Error("a name that is taken: no error")
	}
	reg.Unregister(taken)
	if _, err := New(reg, nil); err != nil {
		t.Errorf("after New has failed: %v; want nothing left registered", err)
	}
}
