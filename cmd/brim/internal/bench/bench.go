// Package bench measures how many decisions a store makes per second, and how long each takes.
//
// Each caller asks again as soon as it has its answer. The package also compares the admitted
// units with the limits, because a store can be fast by admitting too many.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/store"
)

const (
	rounds  = 5    // of the store and the reference, alternately
	batch   = 1000 // buckets created per call
	warmUp  = 200 * time.Millisecond
	longest = 500 * time.Millisecond // time of the rush
)

// Every measured bucket starts half full and leaks slowly. During any measurement one unit fits,
// and three quarters of the capacity do not.
var (
	limit  = store.Limit{Capacity: 1 << 40, LeakRate: 1}
	filled = limit.Capacity / 2
	tooBig = limit.Capacity / 4 * 3
)

// rushed is the limit of the single bucket that all callers rush at the end. The store must
// refuse nearly all calls, so units admitted beyond the limit show at once.
var rushed = store.Limit{Capacity: 100, LeakRate: 100}

// Options describe a measurement. Store, Callers, Keys and Duration are required and positive.
type Options struct {
	Store    store.Store
	Callers  int
	Keys     int
	Duration time.Duration // of the measurement of the store; a reference takes as much time again
	Refused  float64       // share of refused decisions, from 0 to 1; they ask for too much
	Prefix   string        // of the keys in the store
	// Reference, if not nil, is measured alternately with the store.
	Reference *Reference
	// Progress, if not nil, is called from time to time with the share of the work that is done.
	Progress func(share float64)
}

// Reference is the cheapest durable change that the same backend can make for a decision: a
// change of one row.
type Reference struct {
	// Decide changes the row with the number key, which counts from 0. Any number of goroutines
	// call it at once.
	Decide func(ctx context.Context, key int) error
	// Close removes the file or table of the reference.
	Close func() error
}

// Report is the result of a measurement. The figures of the reference are nil if there was none.
type Report struct {
	Store               string   `json:"store"`
	Callers             int      `json:"callers"`
	Keys                int      `json:"keys"`
	DecisionsPerSecond  float64  `json:"decisions_per_second"` // median of the rounds
	P50                 float64  `json:"p50_ms"`
	P99                 float64  `json:"p99_ms"`
	ReferencePerSecond  *float64 `json:"reference_per_second"`
	ReferenceP99        *float64 `json:"reference_p99_ms"`
	Ratio               *float64 `json:"ratio"`                 // median of all rounds
	AdmittedBeyondLimit float64  `json:"admitted_beyond_limit"` // see beyond
	Complete            bool     `json:"complete"`              // false after an interrupt
}

// Run measures. Its keys stay in the store, and the caller removes them by the prefix. If ctx ends
// after the first measured decision, Run returns the report of the part before, and the error.
func Run(ctx context.Context, o Options) (*Report, error) {
	b := &bench{
		Options:  o,
		lim:      brim.New(o.Store, &brim.Options{Prefix: o.Prefix, AsStored: true}),
		admitted: make([]atomic.Int64, o.Keys),
	}
	b.keys = make([]string, o.Keys)
	for i := range b.keys {
		b.keys[i] = strconv.Itoa(i)
	}
	start := time.Now()
	if err := b.prepare(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	err := b.measure(ctx)
	if err != nil && (ctx.Err() == nil || b.report.DecisionsPerSecond == 0) {
		return nil, fmt.Errorf("bench: %w", err)
	}
	elapsed := time.Since(start)
	for i := range b.admitted {
		b.report.AdmittedBeyondLimit += beyond(limit, b.admitted[i].Load(), elapsed)
	}
	b.report.Callers, b.report.Keys = o.Callers, o.Keys
	if err == nil {
		err = b.rush(ctx)
	}
	if err != nil {
		err = fmt.Errorf("bench: %w", err)
		if ctx.Err() == nil {
			return nil, err
		}
	}
	b.report.Complete = err == nil
	return &b.report, err
}

// bench is a running measurement.
type bench struct {
	Options
	lim      *brim.Limiter
	keys     []string
	admitted []atomic.Int64 // admitted units by key
	report   Report
}

// prepare creates the buckets, because the creation of buckets is not measured.
func (b *bench) prepare(ctx context.Context) error {
	for first := 0; first < len(b.keys); first += batch {
		keys := b.keys[first:min(first+batch, len(b.keys))]
		txns := make([]store.Txn, len(keys))
		for i, key := range keys {
			txns[i] = store.Txn{{Bucket: limit.For(b.Prefix + key), Amount: filled}}
		}
		results, err := b.Store.Apply(ctx, txns...)
		if err != nil {
			return err
		}
		for i, res := range results {
			if res.Err != nil {
				return res.Err
			}
			if res.Accepted {
				b.admitted[first+i].Add(int64(filled))
			}
		}
	}
	return nil
}

// decide asks for one unit of a bucket or, if full is set, for more than the bucket has room for.
func (b *bench) decide(ctx context.Context, key int, full bool) (bool, error) {
	amount := 1.0
	if full {
		amount = tooBig
	}
	st, err := b.lim.TryFillup(ctx, limit.For(b.keys[key]), amount)
	if st.Accepted {
		b.admitted[key].Add(int64(amount))
	}
	return st.Accepted, err
}

// subject is the store or the reference, and its figures by round.
type subject struct {
	load  load.Options
	rates []float64 // decisions per second
	took  load.Histogram
}

func (s *subject) trial(ctx context.Context) error {
	res, err := load.Run(ctx, s.load)
	// A trial that was cut short tells less than a whole one, but more than none.
	if rate := res.PerSecond(); err == nil || len(s.rates) == 0 && rate > 0 {
		s.rates = append(s.rates, rate)
		s.took.Add(&res.Took)
	}
	return err
}

// subjects returns the store and, if there is one, the reference. Each trial of them takes the
// time each.
func (b *bench) subjects(each time.Duration) ([]*subject, error) {
	order, err := load.Draw("uniform", b.Keys, b.Keys, b.Refused, rand.Uint64())
	if err != nil {
		return nil, err
	}
	all := []*subject{{load: load.Options{Callers: b.Callers, For: each, Order: order, Decide: b.decide}}}
	if b.Reference == nil {
		return all, nil
	}
	if order, err = load.Draw("uniform", b.Keys, b.Keys, 0, rand.Uint64()); err != nil {
		return nil, err
	}
	o := load.Options{Callers: b.Callers, For: each, Order: order}
	o.Decide = func(ctx context.Context, key int, _ bool) (bool, error) {
		return true, b.Reference.Decide(ctx, key)
	}
	return append(all, &subject{load: o}), nil
}

// measure runs the trials of the store and the reference.
func (b *bench) measure(ctx context.Context) error {
	n := 1
	if b.Reference != nil {
		n = rounds
	}
	each := b.Duration / time.Duration(n)
	subjects, err := b.subjects(each)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		warm := s.load
		warm.For = min(warmUp, each/5)
		if _, err := load.Run(ctx, warm); err != nil {
			return err
		}
	}
	done := 0
	err = load.Interleave(n, len(subjects), func(_, i int) error {
		if err := subjects[i].trial(ctx); err != nil {
			return err
		}
		if done++; b.Progress != nil {
			b.Progress(float64(done) / float64(n*len(subjects)))
		}
		return nil
	})
	rep, ours := &b.report, subjects[0]
	rep.DecisionsPerSecond = load.Median(ours.rates)
	rep.P50, rep.P99 = ours.took.Quantile(0.50), ours.took.Quantile(0.99)
	if len(subjects) > 1 && len(subjects[1].rates) > 0 {
		theirs := subjects[1]
		perSecond, p99 := load.Median(theirs.rates), theirs.took.Quantile(0.99)
		rep.ReferencePerSecond, rep.ReferenceP99 = &perSecond, &p99
		if ratio, ok := load.Ratio(ours.rates, theirs.rates); ok {
			rep.Ratio = &ratio
		}
	}
	return err
}

// rush has all callers ask for units of one small bucket at once.
func (b *bench) rush(ctx context.Context) error {
	order, err := load.Draw("hot", 1, 1, 0, 0)
	if err != nil {
		return err
	}
	o := load.Options{Callers: b.Callers, For: min(longest, b.Duration/5), Order: order}
	o.Decide = func(ctx context.Context, _ int, _ bool) (bool, error) {
		st, err := b.lim.TryFillup(ctx, rushed.For("rush"), 1)
		return st.Accepted, err
	}
	start := time.Now()
	res, err := load.Run(ctx, o)
	if err != nil {
		return err
	}
	b.report.AdmittedBeyondLimit += beyond(rushed, int64(res.Accepted), time.Since(start))
	return nil
}

// beyond returns the admitted units above the bound of a bucket that was empty at first: capacity
// + leak rate * elapsed, rounded down, because all amounts are whole.
func beyond(l store.Limit, admitted int64, elapsed time.Duration) float64 {
	allowed := int64(l.Capacity + float64(l.LeakRate*elapsed.Seconds()))
	return float64(max(0, admitted-allowed))
}
