package prombrim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// Options adjust the metrics. The zero value selects the defaults.
type Options struct {
	// Limits are the limits that the label "limit" tells apart, by name. All others are "other".
	// Two names of one limit are an error.
	Limits map[string]store.Limit
	// Buckets counts the buckets of the store, for three gauges. A scrape waits at most a second
	// for the first count. It leaves the gauges out while there is no count, and after a count that
	// failed. Without a BucketCounter there are no such gauges. The caller closes it.
	Buckets *observe.BucketCounter
	// Findings returns the findings of the last check, for a gauge that counts them by severity and
	// subject. A scrape calls it, so the program checks elsewhere, for instance every minute by
	// postgres.Check, and keeps the list. Without it there is no such gauge.
	Findings func() []store.Finding
}

// The upper bounds of the histograms, which are fixed so that dashboards and alerts fit every
// program.
var (
	ratios    = []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}
	waits     = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600}
	durations = []float64{
		0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
	requests = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// other is the limit of buckets whose limit has no name.
const other = "other"

// outcomes are the labels of decisions.
var outcomes = []string{"accepted", "shadowed", "refused", "never", "blocked", "spilled"}

// ofLimit are the metrics of one limit. They are made once, since a lookup by labels costs more
// than a count.
type ofLimit struct {
	decisions, units map[string]prometheus.Counter // by outcome
	ratio, wait      prometheus.Observer
}

// New registers the metrics with reg and returns the hooks that feed them; o may be nil. Give the
// hooks to [observe.New], and their Trace to the backend's options. The hooks are safe for
// concurrent use. New fails if reg is nil, if a metric is registered already, if a name in
// [Options.Limits] is not UTF-8, or if a limit has two names there.
func New(reg prometheus.Registerer, o *Options) (observe.Hooks, error) {
	if o == nil {
		o = &Options{}
	}
	if reg == nil {
		return observe.Hooks{}, errNoRegisterer
	}
	decisions := counter("brim_decisions_total", "Operations decided.", "outcome", "limit")
	units := counter("brim_units_total", "Units that went in, or stayed outside.", "outcome", "limit")
	ratio := histogram("brim_fill_ratio", "Level and held units over capacity, after each decision.", ratios, "limit")
	wait := histogram("brim_retry_after_seconds", "Waits of refused callers, without endless ones.", waits, "limit")
	calls := histogram("brim_call_duration_seconds", "Duration of calls to the store.", durations, "method", "outcome")
	flushes := histogram("brim_flush_requests", "Callers that shared a commit.", requests, "backend", "outcome")
	retries := counter("brim_retries_total", "Attempts of which nothing was applied.", "backend")

	of := func(name string) *ofLimit {
		m := &ofLimit{
			decisions: make(map[string]prometheus.Counter), units: make(map[string]prometheus.Counter),
			ratio: ratio.WithLabelValues(name), wait: wait.WithLabelValues(name),
		}
		for _, outcome := range outcomes {
			m.decisions[outcome] = decisions.WithLabelValues(outcome, name)
			m.units[outcome] = units.WithLabelValues(outcome, name)
		}
		return m
	}
	limits, names := make(map[store.Limit]*ofLimit), make(map[store.Limit]string)
	var quotas []store.Limit
	for name, l := range o.Limits {
		if !utf8.ValidString(name) {
			return observe.Hooks{}, fmt.Errorf("prombrim: a limit is called %q: a name must be UTF-8", name)
		}
		if first, is := names[l]; is {
			return observe.Hooks{}, fmt.Errorf("prombrim: the limit %+v has two names, %q and %q: keep one", l, first, name)
		}
		limits[l], names[l] = of(name), name
		if l.Calendar() {
			quotas = append(quotas, l)
		}
	}
	slices.SortFunc(quotas, func(a, b store.Limit) int { return strings.Compare(names[a], names[b]) })
	rest := of(other)

	collectors := []prometheus.Collector{decisions, units, ratio, wait, calls, flushes, retries}
	if o.Buckets != nil {
		collectors = append(collectors, newGauges(o.Buckets))
	}
	if o.Findings != nil {
		collectors = append(collectors, findings(o.Findings))
	}
	if err := register(reg, collectors...); err != nil {
		return observe.Hooks{}, err
	}
	var called sync.Map // of methods
	return observe.Hooks{
		Decision: func(_ context.Context, d observe.Decision) {
			m := limits[d.Limit]
			if !d.Begins.IsZero() {
				if i := slices.IndexFunc(quotas, d.Under); i >= 0 {
					m = limits[quotas[i]]
				}
			}
			if m == nil {
				m = rest
			}
			m.observe(&d)
		},
		End: func(_ context.Context, c observe.Call, e observe.Outcome) {
			if _, seen := called.LoadOrStore(c.Method, true); !seen {
				for _, outcome := range []string{"failed", "unknown", "late"} {
					calls.WithLabelValues(string(c.Method), outcome) // a series that begins with the first failure would hide it from rate()
				}
			}
			calls.WithLabelValues(string(c.Method), e.Label()).Observe(e.Took.Seconds())
		},
		Flush: func(f store.Flush) {
			outcome := observe.Outcome{Err: f.Err}.Label()
			flushes.WithLabelValues(f.Backend, outcome).Observe(float64(f.Requests))
		},
		Retry: func(r store.Retry) { retries.WithLabelValues(r.Backend).Inc() },
	}, nil
}

var errNoRegisterer = errors.New("prombrim: the Registerer is nil; pass prometheus.DefaultRegisterer, or one of your own")

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
}

// register registers all collectors, or none.
func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	for i, c := range collectors {
		if err := reg.Register(c); err != nil {
			for _, registered := range collectors[:i] {
				reg.Unregister(registered)
			}
			return fmt.Errorf("prombrim: %w", err)
		}
	}
	return nil
}

// observe counts a decision.
func (m *ofLimit) observe(d *observe.Decision) {
	outcome := d.Label()
	m.decisions[outcome].Inc()
	if outcome == "spilled" {
		spilled := min(d.State.Spilled, d.Amount) // a rounding error can put it above, and Add panics below 0
		m.units["accepted"].Add(d.Amount - spilled)
		m.units[outcome].Add(spilled)
	} else {
		m.units[outcome].Add(max(0, d.Amount))
	}
	if d.State.Capacity > 0 {
		m.ratio.Observe((d.State.Level + d.State.Held) / d.State.Capacity)
	}
	if wait := d.State.RetryAfter; wait > 0 && wait < store.Never {
		m.wait.Observe(wait.Seconds())
	}
}

// firstCount is how long a scrape waits for the first count.
const firstCount = time.Second

// gauges collects the counts of a BucketCounter.
type gauges struct {
	counter             *observe.BucketCounter
	buckets, bytes, age *prometheus.Desc
}

func newGauges(c *observe.BucketCounter) *gauges {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &gauges{
		counter: c,
		buckets: desc("brim_store_buckets", "Buckets in the store."),
		bytes:   desc("brim_store_size_bytes", "Bytes that the buckets take where the store keeps them."),
		age:     desc("brim_store_buckets_age_seconds", "Time since the buckets were counted."),
	}
}

// Describe sends the descriptions of the gauges.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.buckets
	ch <- g.bytes
	ch <- g.age
}

// Collect sends the newest counts.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), firstCount)
	defer cancel()
	n, err := g.counter.Count(ctx)
	if err != nil {
		return // an invalid metric would cost the scrape all other metrics
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(g.buckets, float64(n.Buckets))
	if n.Bytes >= 0 {
		gauge(g.bytes, float64(n.Bytes))
	}
	gauge(g.age, time.Since(n.At).Seconds())
}

// findings collects the findings of the last check.
type findings func() []store.Finding

var found = prometheus.NewDesc("brim_findings", "Findings of the last check.", []string{"severity", "subject"}, nil)

// Describe sends the description of the gauge.
func (findings) Describe(ch chan<- *prometheus.Desc) { ch <- found }

// Collect sends the numbers of findings.
func (last findings) Collect(ch chan<- prometheus.Metric) {
	type labels struct{ severity, subject string }
	count := make(map[labels]int)
	for _, f := range last() {
		count[labels{f.Severity.String(), f.Subject}]++
	}
	for of, n := range count {
		ch <- prometheus.MustNewConstMetric(found, prometheus.GaugeValue, float64(n), of.severity, of.subject)
	}
}
