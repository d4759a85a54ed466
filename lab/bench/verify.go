package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// longestProof is the time in which a million entries must be proven.
const longestProof = 30 * time.Second

// verify measures a proof of a million entries on every ledger, alone and beside callers who charge
// accounts of the budget meanwhile, and the charges beside it.
func (b *bench) verify(ctx context.Context) error {
	sizes := []held{{0, 1_000, 1_000}, {1_000_000, 1_000, 1}}
	if b.Quick {
		sizes = []held{{0, 100, 100}, {10_000, 100, 1}}
	}
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	for _, kind := range b.ledgers() {
		for _, size := range sizes {
			l, closeLedger, err := kind.open(ctx, time.Now)
			if err == nil {
				err = b.besideVerify(ctx, fmt.Sprintf("%s, %v", kind.name, size), l, size)
			}
			if err == nil {
				err = closeLedger()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
	}
	return nil
}

func (b *bench) besideVerify(ctx context.Context, workload string, l ledger.Ledger, size held) error {
	const callers = 2 // in memory, many would leave the proof no processor
	b.say("verify: filling %s", workload)
	cards, err := spend.New(ctx, l, budget(fmt.Sprint("cards", time.Now().UnixNano())), nil)
	if err == nil {
		err = b.fill(ctx, cards, size)
	}
	if err != nil {
		return err
	}
	accounts := size.accounts
	if size.large > 0 {
		accounts++
	}
	prove := func(ctx context.Context) error {
		n, err := cards.VerifyAll(ctx)
		if err == nil && n != accounts {
			err = fmt.Errorf("VerifyAll has proven %d accounts, want %d", n, accounts)
		}
		return err
	}
	without := b.new(workload, "charges", reference, "")
	beside := b.new(workload, "charges beside VerifyAll", ours, "charges")
	for range b.rounds {
		start := time.Now()
		if err := prove(ctx); err != nil {
			return err
		}
		proof := time.Since(start)
		if without.add("VerifyAll s", proof.Seconds()); proof > longestProof {
			b.Broken = append(b.Broken, fmt.Sprintf("%s: VerifyAll took %v; want %v at most", workload, proof, longestProof))
		}
		o := load.Options{Callers: callers, Order: inTurn(size.accounts), Decide: b.charging(cards)}
		alone, during, took, err := b.alongside(ctx, o, prove)
		if err != nil {
			return err
		}
		note(without, alone)
		note(beside, during)
		beside.add("VerifyAll s", took.Seconds())
	}
	return nil
}
