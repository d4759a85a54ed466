package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

const (
	arrivals     = 20_000 // per second
	refusalKeys  = 1_000
	mostAsked    = 0.06 // statements per decision
	leastRefused = 0.945
)

// refusalLimit admits one in twenty of the calls that arrive at a key whose bucket is full.
var refusalLimit = brim.Limit{Capacity: 10, LeakRate: float64(arrivals) / refusalKeys / 20}

// statements counts the statements that pgx sends to the server, alone or in a batch.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { s.n.Add(1) }
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// counting counts the calls that local.Refusals makes of the store. Several of its calls may
// share a statement.
type counting struct {
	*postgres.Store
	fills atomic.Int64
}

func (c *counting) Fill(ctx context.Context, op store.Op) (brim.State, error) {
	c.fills.Add(1)
	return c.Store.Fill(ctx, op)
}

// runRefusals lets calls arrive at a fixed rate, whether or not earlier calls have been answered,
// and returns the figures.
func runRefusals(ctx context.Context, url string, length time.Duration) (_ []figure, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	var sent statements
	cfg.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	db, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	inner := &counting{Store: db}
	s, err := local.Refusals(inner, nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lim := brim.New(s, nil)
	buckets, filled, err := fullBuckets(ctx, brim.New(db, nil))
	if err != nil {
		return nil, err
	}
	order := arrive(length)
	took := make([]time.Duration, len(order))
	let := make([]atomic.Int64, refusalKeys)
	var accepted, estimates atomic.Int64
	before, asked := sent.n.Load(), inner.fills.Load()
	var calls sync.WaitGroup
	begin := time.Now()
	for i := 0; i < len(order) && ctx.Err() == nil; time.Sleep(time.Until(due(begin, i))) {
		for ; i < len(order) && !due(begin, i).After(time.Now()); i++ {
			call, key := i, order[i]
			calls.Go(func() {
				st, err := lim.TryFillup(ctx, buckets[key], 1)
				took[call] = time.Since(due(begin, call))
				if err != nil {
					cancel(err)
				}
				if st.Accepted {
					accepted.Add(1)
					let[key].Add(1)
				}
				if st.Estimate {
					estimates.Add(1)
				}
			})
		}
	}
	calls.Wait()
	end := time.Now()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	most := 0.0
	for i := range let {
		// The bucket was filled after the time since, so it has leaked at most for the time from
		// since to the end.
		room := refusalLimit.Capacity - filled[i].level + refusalLimit.LeakRate*end.Sub(filled[i].since).Seconds()
		most = max(most, float64(let[i].Load())/room)
	}
	n := float64(len(order))
	statementsPer := float64(sent.n.Load()-before) / n
	refused := 1 - float64(accepted.Load())/n
	slices.Sort(took)
	at := func(q float64) string { return took[int(q*(n-1))].Round(10 * time.Microsecond).String() }
	name := fmt.Sprintf("refusals, %d calls/s over %d keys: ", arrivals, refusalKeys)
	rate := n / end.Sub(begin).Seconds()
	return []figure{
		{
			name:     name + "decisions/s",
			measured: fmt.Sprintf("%.0f", rate),
			required: fmt.Sprintf("≥ %.0f", 0.98*arrivals),
			reached:  rate >= 0.98*arrivals,
		},
		{
			name:     "… refused",
			measured: fmt.Sprintf("%.2f %%", 100*refused),
			required: fmt.Sprintf("≥ %.1f %%", 100*leastRefused),
			reached:  refused >= leastRefused,
		},
		{
			name: "… statements / decisions", measured: fmt.Sprintf("%.2f %%", 100*statementsPer),
			required: fmt.Sprintf("≤ %.0f %%", 100*mostAsked), reached: statementsPer <= mostAsked, bound: true,
		},
		{
			name:     "… calls of the store / decisions",
			measured: fmt.Sprintf("%.2f %%", 100*float64(inner.fills.Load()-asked)/n),
		},
		{name: "… answered from memory", measured: fmt.Sprintf("%.2f %%", 100*float64(estimates.Load())/n)},
		{
			name: "… admitted / room and leak, for the key that comes closest", measured: fmt.Sprintf("%.4f", most),
			required: "≤ 1", reached: most <= 1, bound: true,
		},
		{name: "… from arrival to answer, p50; p99", measured: at(0.5) + "; " + at(0.99)},
	}, nil
}

// arrive draws the keys of all calls, in their order.
func arrive(length time.Duration) []int {
	r := rand.New(rand.NewPCG(4, 95))
	order := make([]int, int(arrivals*length.Seconds()))
	for i := range order {
		order[i] = r.IntN(refusalKeys)
	}
	return order
}

// due returns the time at which call i arrives.
func due(begin time.Time, i int) time.Time {
	return begin.Add(time.Duration(i) * time.Second / arrivals)
}

// filling is the level to which a bucket was filled after the time since.
type filling struct {
	level float64
	since time.Time
}

// fullBuckets fills buckets almost to the capacity. Each bucket has room for a unit within the
// time in which a unit leaks, but not all of them at the same moment.
func fullBuckets(ctx context.Context, lim *brim.Limiter) ([]brim.Bucket, []filling, error) {
	r := rand.New(rand.NewPCG(4, 5))
	buckets, filled := make([]brim.Bucket, refusalKeys), make([]filling, refusalKeys)
	var fills []brim.Fill
	since := time.Now()
	for i := range buckets {
		buckets[i] = refusalLimit.For(fmt.Sprintf("tenant:%d", i))
		filled[i] = filling{refusalLimit.Capacity - r.Float64(), since}
		fills = append(fills, brim.Fill{Bucket: buckets[i], Amount: filled[i].level})
	}
	states, err := lim.TryFillupAll(ctx, fills...)
	if err == nil && !states[0].Accepted {
		err = errors.New("the buckets existed already")
	}
	return buckets, filled, err
}
