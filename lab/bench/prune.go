package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// outdated is the number of entries that a Prune removes, with an ID for each, and of the accounts
// that have them.
type outdated struct{ accounts, entries int }

func (o outdated) String() string {
	if o.accounts == 1 {
		return fmt.Sprintf("%d old entries of an account", o.entries)
	}
	return fmt.Sprintf("%d old entries of %d accounts", o.entries, o.accounts)
}

// prune measures charges beside a Prune, and the same charges before and after it, on every ledger.
func (b *bench) prune(ctx context.Context) error {
	entries := 300_000
	if b.Quick {
		entries = 10_000
	}
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		open func(ctx context.Context, clock func() time.Time) (ledger.Ledger, func() error, error)
	}{
		{"memledger", func(_ context.Context, clock func() time.Time) (ledger.Ledger, func() error, error) {
			l := memledger.New(&memledger.Options{Clock: clock})
			return l, l.Close, nil
		}},
		{"boltledger", b.journaled},
		{"pgledger", b.onServer},
	} {
		for _, old := range []outdated{{1_000, entries}, {1, entries}} {
			var us atomic.Int64 // of the clock; 0 is the present
			us.Store(time.Now().AddDate(0, 0, -300).UnixMicro())
			l, closeLedger, err := kind.open(ctx, func() time.Time {
				if us := us.Load(); us != 0 {
					return time.UnixMicro(us)
				}
				return time.Now()
			})
			if err == nil {
				err = errors.Join(b.besidePrune(ctx, fmt.Sprintf("%s, %v", kind.name, old), l, old, &us), closeLedger())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
	}
	return nil
}

// journaled returns a ledger in a new file with a journal.
func (b *bench) journaled(_ context.Context, clock func() time.Time) (ledger.Ledger, func() error, error) {
	dir, err := os.MkdirTemp(b.dir, "prune")
	if err != nil {
		return nil, nil, err
	}
	s, err := bolt.Open(filepath.Join(dir, "spends.db"), nil)
	if err != nil {
		return nil, nil, err
	}
	l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
	return l, func() error { return errors.Join(l.Close(), s.Close()) }, err
}

// onServer returns a ledger in PostgreSQL.
func (b *bench) onServer(ctx context.Context, clock func() time.Time) (ledger.Ledger, func() error, error) {
	pool, err := b.connect(ctx, 16, "on")
	if err != nil {
		return nil, nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{Clock: clock})
	if err != nil {
		return nil, nil, err
	}
	l, err := pgledger.New(s, nil)
	return l, func() error { defer pool.Close(); return errors.Join(l.Close(), s.Close()) }, err
}

// errPruned ends the load beside a Prune.
var errPruned = errors.New("Prune has ended")

// besidePrune fills a budget for each round, and then prunes one after the other. Callers charge
// 1,000 accounts of the budget, which Prune visits if they have old entries.
func (b *bench) besidePrune(ctx context.Context, workload string, l ledger.Ledger, old outdated, us *atomic.Int64) error {
	const callers, busy = 64, 1_000
	b.say("prune: filling %s", workload)
	all := make([]*spend.Budgets, b.rounds)
	for i := range all {
		var err error
		if all[i], err = spend.New(ctx, l, budget(fmt.Sprint("cards", i, time.Now().UnixNano())), nil); err != nil {
			return err
		}
	}
	if err := forEach(256, b.rounds*old.entries, func(i int) error {
		us.Add(1000)
		return b.charge(ctx, all[i/old.entries], account(i%old.accounts), 1, true)
	}); err != nil {
		return err
	}
	us.Store(0)
	without := b.new(workload, "charges", reference, "")
	beside := b.new(workload, "charges beside Prune", ours, "charges")
	order := make(load.Order, 1<<16)
	for i := range order {
		order[i] = int32(i * 7919 % busy)
	}
	for _, cards := range all {
		decide := func(ctx context.Context, n int, _ bool) (bool, error) {
			return true, b.charge(context.WithoutCancel(ctx), cards, account(n), 1, true)
		}
		if err := forEach(callers, busy, func(i int) error { _, err := decide(ctx, i, false); return err }); err != nil {
			return err
		}
		o := load.Options{Callers: callers, For: b.length / 2, Order: order, Decide: decide}
		alone, err := load.Run(ctx, o)
		if err != nil {
			return err
		}
		pruning, end := context.WithCancelCause(ctx)
		var took time.Duration
		var done spend.PruneResult
		var failed error
		go func() {
			start := time.Now()
			done, failed = cards.Prune(pruning)
			took = time.Since(start)
			end(errPruned)
		}()
		o.For = math.MaxInt64
		during, err := load.Run(pruning, o)
		switch {
		case !errors.Is(err, errPruned) || failed != nil:
			return errors.Join(err, failed)
		case done.Requests != int64(old.entries):
			return fmt.Errorf("Prune has removed %d IDs, want %d", done.Requests, old.entries)
		}
		o.For = max(b.length/2, took) // as long, because memory and files grow meanwhile
		after, err := load.Run(ctx, o)
		if err != nil {
			return err
		}
		alone.Accepted += after.Accepted
		alone.Elapsed += after.Elapsed
		alone.Took.Add(&after.Took)
		note(without, alone)
		note(beside, during)
		beside.add("Prune s", took.Seconds())
	}
	return nil
}

// note adds the figures of a load to a row.
func note(to *row, res *load.Result) {
	to.add(rateFigure, res.PerSecond())
	to.add("p50 ms", res.Took.Quantile(0.50))
	to.add(p99Figure, res.Took.Quantile(0.99))
	to.add("p99.9 ms", res.Took.Quantile(0.999))
}
