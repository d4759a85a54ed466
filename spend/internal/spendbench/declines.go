package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// declines measures approvals and declines on one account with many entries, on every ledger.
func (b *bench) declines(ctx context.Context) error {
	t := table.Numeric("ledger", "callers", "approvals/s", "p50 ms", "p99 ms", "declines/s", "p50 ms", "p99 ms", "p99 ratio")
	for _, subject := range []struct {
		name string
		open func(context.Context) (ledger.Ledger, func() error, error)
	}{{"memledger", b.inMemory}, {"boltledger", b.inFile}, {"pgledger", b.inPostgres}} {
		l, closeLedger, err := subject.open(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(b.decline(ctx, t, subject.name, l), closeLedger()); err != nil {
			return fmt.Errorf("%s: %w", subject.name, err)
		}
	}
	_, err := fmt.Fprintln(b.stdout, t.Markdown())
	return err
}

const crowded = "crowded" // the account of the declines

func (b *bench) inMemory(ctx context.Context) (ledger.Ledger, func() error, error) {
	// A ledger in memory keeps its clock, so the clock goes on from now after the filling.
	fill := newClock(b.window)
	var filled func() time.Time
	l := memledger.New(&memledger.Options{Clock: func() time.Time {
		if filled != nil {
			return filled()
		}
		return fill.time()
	}})
	err := fill.fill(ctx, l, crowded)
	filled = time.Now
	return l, l.Close, err
}

func (b *bench) inFile(ctx context.Context) (ledger.Ledger, func() error, error) {
	return b.file(ctx, "crowded.db", newClock(b.window), crowded)
}

func (b *bench) inPostgres(ctx context.Context) (ledger.Ledger, func() error, error) {
	fill := newClock(b.window)
	quick, err := b.connect(ctx, 16, "off")
	if err != nil {
		return nil, nil, err
	}
	defer quick.Close()
	l, closeLedger, err := ledgerOver(quick, fill.time)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(fill.fill(ctx, l, crowded), closeLedger()); err != nil {
		return nil, nil, err
	}
	if _, err := quick.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, nil, err
	}
	pool, err := b.connect(ctx, 16, "on")
	if err != nil {
		return nil, nil, err
	}
	l, closeLedger, err = ledgerOver(pool, nil)
	return l, func() error { defer pool.Close(); return closeLedger() }, err
}

// room is the amount that is left in the window of the account, in cents.
const room = 1 << 40

// decline compares charges of a cent with charges that need some of the entries in the window to
// leave it. What is missing for these is a cent, or all of the window, or any order of magnitude
// in between.
func (b *bench) decline(ctx context.Context, t *table.Table, name string, l ledger.Ledger) error {
	wide, err := spend.New(l, spendload.Budget(window), nil)
	if err != nil {
		return err
	}
	usage, err := wide.Remaining(ctx, crowded)
	if err != nil {
		return err
	}
	used := usage[0].Used.Minor
	budget := spendload.Budget(window)
	budget.Rules[0] = spend.Rolling("rolling", cents(used+room), window)
	cards, err := spend.New(l, budget, nil)
	if err != nil {
		return err
	}
	charge := func(amount func() int64, approved bool) decide {
		return func(ctx context.Context, _ int) error {
			d, err := cards.Charge(ctx, spend.Request{ID: b.id(), Account: crowded, Amount: cents(amount())})
			if err == nil && d.Approved != approved {
				err = fmt.Errorf("approved is %t, want %t", d.Approved, approved)
			}
			return err
		}
	}
	approve := charge(func() int64 { return 1 }, true)
	decline := charge(func() int64 { return room + int64(math.Pow(float64(used), rand.Float64())) }, false)
	for _, callers := range []int{64, 256} {
		results, err := b.turns(ctx, callers, 1, approve, decline)
		if err != nil {
			return err
		}
		row := []string{name, fmt.Sprint(callers)}
		var quantiles [2][2]float64
		for i, list := range results {
			var all load.Histogram
			for _, r := range list {
				all.Add(&r.Took)
			}
			row = append(row, fmt.Sprintf("%.0f", load.Median(rates(list))))
			for j, q := range []float64{0.5, 0.99} {
				quantiles[i][j] = all.Quantile(q)
				row = append(row, fmt.Sprintf("%.2f", quantiles[i][j]))
			}
		}
		t.Add(append(row, fmt.Sprintf("%.1f", quantiles[1][1]/quantiles[0][1]))...)
	}
	return nil
}
