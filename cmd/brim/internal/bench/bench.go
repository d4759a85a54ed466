// Package bench measures how many decisions a store makes per second, and how long each takes.
//
// Every caller asks again as soon as it is answered. Beside the speed, the units that were acknowledged are held against
// what the limits allow: a store that is fast because it lets too much through is no use.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

const (
	rounds  = 5    // of each subject, in turn, where there is a reference
	batch   = 1000 // buckets created per call
	warmUp  = 200 * time.Millisecond
	longest = 500 * time.Millisecond // that the rush takes
)

// Every measured bucket starts half full and leaks slowly: for as long as any measurement takes, one unit fits and three
// quarters of the capacity do not.
var (
	limit  = store.Limit{Capacity: 1 << 40, LeakRate: 1}
	filled = limit.Capacity / 2
	tooBig = limit.Capacity / 4 * 3
)

// rushed is the limit of the one bucket that all callers rush at the end. Nearly all of what they ask is refused, so units
// that are let through beyond the limit show at once.
var rushed = store.Limit{Capacity: 100, LeakRate: 100}

// Options say what to measure. Store, Callers, Keys and Duration are required and positive.
type Options struct {
	Store    store.Store
	Callers  int
	Keys     int
	Duration time.Duration // of the measurement of the store; a reference takes as long again
	Refused  float64       // the share of the decisions, from 0 to 1, that ask for too much and are refused
	Prefix   string        // of the keys in the store
	// Reference, if not nil, is measured in turn with the store.
	Reference *Reference
	// Progress, if not nil, is told the share of the work that is done, now and then.
	Progress func(share float64)
}

// Reference is the barest that the same backend can do for a decision: one durable change of one row.
type Reference struct {
	// Decide makes one, on the row numbered key, from 0. Any number of goroutines call it at once.
	Decide func(ctx context.Context, key int) error
	// Close removes what the reference has made.
	Close func() error
}

// Report is what was measured. Figures of the reference are nil where there was none.
type Report struct {
	Store               string   `json:"store"`
	Callers             int      `json:"callers"`
	Keys                int      `json:"keys"`
	DecisionsPerSecond  float64  `json:"decisions_per_second"` // the median of the rounds
	P50                 float64  `json:"p50_ms"`
	P99                 float64  `json:"p99_ms"`
	ReferencePerSecond  *float64 `json:"reference_per_second"`
	ReferenceP99        *float64 `json:"reference_p99_ms"`
	Ratio               *float64 `json:"ratio"`                 // the median of the ratios of rounds next to each other
	AdmittedBeyondLimit float64  `json:"admitted_beyond_limit"` // units acknowledged over capacity + leak rate * elapsed
}

// Run measures. It leaves its keys in the store: whoever chose the prefix removes them.
func Run(ctx context.Context, o Options) (*Report, error) {
	b := &bench{Options: o, lim: brim.New(o.Store, &brim.Options{Prefix: o.Prefix}), admitted: make([]atomic.Int64, o.Keys)}
	b.keys = make([]string, o.Keys)
	for i := range b.keys {
		b.keys[i] = strconv.Itoa(i)
	}
	start := time.Now()
	if err := b.prepare(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := b.measure(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	elapsed := time.Since(start)
	for i := range b.admitted {
		b.report.AdmittedBeyondLimit += beyond(limit, b.admitted[i].Load(), elapsed)
	}
	if err := b.rush(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	b.report.Callers, b.report.Keys = o.Callers, o.Keys
	return &b.report, nil
}

// bench is a measurement under way.
type bench struct {
	Options
	lim      *brim.Limiter
	keys     []string
	admitted []atomic.Int64 // units acknowledged, by key
	report   Report
}

// prepare creates the buckets, so that what is measured is deciding and not creating.
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

func (b *bench) decide(ctx context.Context, r *rand.Rand) error {
	key, amount := r.IntN(len(b.keys)), 1.0
	if b.Refused > 0 && r.Float64() < b.Refused {
		amount = tooBig
	}
	st, err := b.lim.TryFillup(ctx, limit.For(b.keys[key]), amount)
	if st.Accepted {
		b.admitted[key].Add(int64(amount))
	}
	return err
}

// measure runs the store, and the reference in turn with it.
func (b *bench) measure(ctx context.Context) error {
	subjects := []func(context.Context, *rand.Rand) error{b.decide}
	n := 1
	if b.Reference != nil {
		n = rounds
		subjects = append(subjects, func(ctx context.Context, r *rand.Rand) error {
			return b.Reference.Decide(ctx, r.IntN(len(b.keys)))
		})
	}
	each := b.Duration / time.Duration(n)
	for _, decide := range subjects {
		if _, err := run(ctx, b.Callers, min(warmUp, each/5), decide); err != nil {
			return err
		}
	}
	var rates [2][]float64
	var took [2]histogram
	for round := range n {
		for i := range subjects {
			// The order changes from round to round, so that neither always runs in the other's wake.
			subject := (i + round) % len(subjects)
			res, err := run(ctx, b.Callers, each, subjects[subject])
			if err != nil {
				return err
			}
			rates[subject] = append(rates[subject], float64(res.took.count())/res.elapsed.Seconds())
			took[subject].add(&res.took)
			if b.Progress != nil {
				b.Progress(float64(round*len(subjects)+i+1) / float64(n*len(subjects)))
			}
		}
	}
	rep := &b.report
	rep.DecisionsPerSecond = median(rates[0])
	rep.P50, rep.P99 = took[0].quantile(0.50), took[0].quantile(0.99)
	if b.Reference != nil {
		ratios := make([]float64, n)
		for i := range ratios {
			ratios[i] = rates[0][i] / rates[1][i]
		}
		perSecond, p99, ratio := median(rates[1]), took[1].quantile(0.99), median(ratios)
		rep.ReferencePerSecond, rep.ReferenceP99, rep.Ratio = &perSecond, &p99, &ratio
	}
	return nil
}

// rush lets all callers at one small bucket at once.
func (b *bench) rush(ctx context.Context) error {
	var admitted atomic.Int64
	start := time.Now()
	_, err := run(ctx, b.Callers, min(longest, b.Duration/5), func(ctx context.Context, _ *rand.Rand) error {
		st, err := b.lim.TryFillup(ctx, rushed.For("rush"), 1)
		if st.Accepted {
			admitted.Add(1)
		}
		return err
	})
	b.report.AdmittedBeyondLimit += beyond(rushed, admitted.Load(), time.Since(start))
	return err
}

// beyond returns the units admitted over what a bucket that was empty can have taken in elapsed. All amounts are whole.
func beyond(l store.Limit, admitted int64, elapsed time.Duration) float64 {
	allowed := int64(l.Capacity + float64(l.LeakRate*elapsed.Seconds()))
	return float64(max(0, admitted-allowed))
}

func median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
