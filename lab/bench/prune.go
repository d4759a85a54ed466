package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	for _, kind := range b.ledgers() {
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

// ledgerKind opens a new ledger of one kind.
type ledgerKind struct {
	name string
	open func(ctx context.Context, clock func() time.Time) (ledger.Ledger, func() error, error)
}

// ledgers are those that are to be measured.
func (b *bench) ledgers() []ledgerKind {
	return slices.DeleteFunc([]ledgerKind{
		{"memledger", func(_ context.Context, clock func() time.Time) (ledger.Ledger, func() error, error) {
			l := memledger.New(&memledger.Options{Clock: clock})
			return l, l.Close, nil
		}},
		{"boltledger", b.journaled},
		{"pgledger", b.onServer},
	}, func(k ledgerKind) bool { return b.leaves(k.name) })
}

// leaves reports whether the ledger of a name is not to be measured.
func (b *bench) leaves(ledger string) bool { return b.ledger != "" && ledger != b.ledger }

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
	for _, cards := range all {
		decide := b.charging(cards)
		if err := forEach(callers, busy, func(i int) error { _, err := decide(ctx, i, false); return err }); err != nil {
			return err
		}
		o := load.Options{Callers: callers, Order: inTurn(busy), Decide: decide}
		var done spend.PruneResult
		alone, during, took, err := b.alongside(ctx, o, func(ctx context.Context) (err error) { done, err = cards.Prune(ctx); return err })
		if err == nil && done.Requests != int64(old.entries) {
			err = fmt.Errorf("Prune has removed %d IDs, want %d", done.Requests, old.entries)
		}
		if err != nil {
			return err
		}
		note(without, alone)
		note(beside, during)
		beside.add("Prune s", took.Seconds())
	}
	return nil
}

// charging returns a decision of a load that charges accounts of a budget. A charge that has begun
// ends.
func (b *bench) charging(cards *spend.Budgets) func(ctx context.Context, n int, _ bool) (bool, error) {
	return func(ctx context.Context, n int, _ bool) (bool, error) {
		return true, b.charge(context.WithoutCancel(ctx), cards, account(n), 1, true)
	}
}

// errWorked ends the load beside a work.
var errWorked = errors.New("the work has ended")

// alongside measures a load while work is done, and before and after it.
func (b *bench) alongside(
	ctx context.Context, o load.Options, work func(ctx context.Context) error,
) (alone, during *load.Result, took time.Duration, err error) {
	o.For = b.length / 2
	if alone, err = load.Run(ctx, o); err != nil {
		return nil, nil, 0, err
	}
	working, end := context.WithCancelCause(ctx)
	var failed error
	go func() {
		start := time.Now()
		failed = work(working)
		took = time.Since(start)
		end(errWorked)
	}()
	o.For = math.MaxInt64
	if during, err = load.Run(working, o); !errors.Is(err, errWorked) || failed != nil {
		return nil, nil, 0, errors.Join(err, failed)
	}
	o.For = max(b.length/2, took) // as long, because memory and files grow meanwhile
	after, err := load.Run(ctx, o)
	if err != nil {
		return nil, nil, 0, err
	}
	alone.Accepted += after.Accepted
	alone.Elapsed += after.Elapsed
	alone.Took.Add(&after.Took)
	return alone, during, took, nil
}

// note adds the figures of a load to a row.
func note(to *row, res *load.Result) {
	to.add(rateFigure, res.PerSecond())
	to.add("p50 ms", res.Took.Quantile(0.50))
	to.add(p99Figure, res.Took.Quantile(0.99))
	to.add("p99.9 ms", res.Took.Quantile(0.999))
}
