package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// held is the entries that a new rule counts: those of one account, and those of each of the
// accounts that callers charge.
type held struct{ large, accounts, each int }

func (h held) String() string {
	if h.large == 0 {
		return fmt.Sprintf("%d accounts of %d entries", h.accounts, h.each)
	}
	return fmt.Sprintf("an account of %d entries, and %d of %d", h.large, h.accounts, h.each)
}

// large is the number of the account with many entries. No caller charges it.
const large = 1 << 20

// fill charges so many entries to a budget.
func (b *bench) fill(ctx context.Context, cards *spend.Budgets, size held) error {
	charge := func(n int, account func(int) string) error {
		return forEach(256, n, func(i int) error { return b.charge(ctx, cards, account(i), 1, true) })
	}
	return errors.Join(
		charge(size.large, func(int) string { return account(large) }),
		charge(size.accounts*size.each, func(i int) string { return account(i % size.accounts) }),
	)
}

// inTurn is an order of callers who use all accounts equally often.
func inTurn(accounts int) load.Order {
	order := make(load.Order, 1<<16)
	for i := range order {
		order[i] = int32(i * 7919 % accounts)
	}
	return order
}

// revise measures charges after a rule has been added to their budget, on every ledger: while the
// rule counts an account with many entries, and in the time in which it counts those that are
// charged. It compares them with the same charges before and after that.
func (b *bench) revise(ctx context.Context) error {
	sizes := []held{{300_000, 1_000, 20}, {0, 1_000, 200}, {0, 200, 900}, {0, 200, 1_100}}
	if b.Quick {
		sizes = []held{{10_000, 100, 20}, {0, 100, 200}}
	}
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	for _, kind := range b.ledgers() {
		l, closeLedger, err := kind.open(ctx, time.Now)
		for i, size := range sizes {
			if err == nil {
				err = b.besideRule(ctx, fmt.Sprintf("%s, %v", kind.name, size), l, fmt.Sprint("cards", i, time.Now().UnixNano()), size)
			}
		}
		if err == nil {
			err = closeLedger()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

// besideRows are the rows of a load by itself, and of the load beside a work.
type besideRows struct{ alone, beside *row }

// besideRule fills a budget, and another one with the same accounts. Then each round adds a rule to
// the first one.
func (b *bench) besideRule(ctx context.Context, workload string, l ledger.Ledger, name string, size held) error {
	const callers = 16
	b.say("rules: filling %s", workload)
	other := budget(name + " of others")
	cards, err := spend.New(ctx, l, budget(name), &spend.Options{Budgets: []spend.Budget{other}})
	if err != nil {
		return err
	}
	others, err := cards.ForBudget(ctx, other.Name)
	if err != nil {
		return err
	}
	if err := errors.Join(b.fill(ctx, cards, size), b.fill(ctx, others, held{0, size.accounts, size.each})); err != nil {
		return err
	}
	revision := 0
	measure := func(to besideRows, of *spend.Budgets) error {
		o := load.Options{Callers: callers, Order: inTurn(size.accounts), Decide: b.charging(of)}
		counts := 0
		alone, during, took, err := b.alongside(ctx, o, func(ctx context.Context) error {
			for start := time.Now(); time.Since(start) < b.length; { // a collection of garbage may take a second
				revision++
				rules := budget(name)
				rules.Revision = int64(revision)
				rules.Rules = append(rules.Rules, spend.Rolling("new", cents(1<<50), window+time.Duration(revision)*time.Hour))
				if err := cards.SetRules(ctx, rules, nil); err != nil {
					return err
				}
				if size.large == 0 {
					time.Sleep(b.length)
				} else if err := b.charge(ctx, cards, account(large), 1, true); err != nil {
					return err
				}
				counts++
			}
			return nil
		})
		if err != nil {
			return err
		}
		note(to.alone, alone)
		note(to.beside, during)
		to.beside.add("s a rule", took.Seconds()/float64(counts))
		return nil
	}
	rows := func(subject string) besideRows {
		return besideRows{b.new(workload, subject, reference, ""), b.new(workload, subject+" after a new rule", ours, subject)}
	}
	own, foreign := rows("charges"), rows("charges of another budget")
	for range b.rounds {
		if err := errors.Join(measure(own, cards), measure(foreign, others)); err != nil {
			return err
		}
	}
	return nil
}
