package lin

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// planSpend returns a random plan for a ledger. clock tells whether the history has the ledger's
// clock. In half of the plans, all spends count against the team, too.
func planSpend(r *rand.Rand, clock bool, impatient, strikes int) plan {
	p := plan{strikes: make(map[int64]bool), seed: r.Uint64()}
	shared := r.IntN(2) == 0
	var begun, sent []spendRequest
	for number := 1; len(p.steps) < each*clients; number++ {
		q := newSpend(r, begun, number)
		switch n := r.IntN(20); {
		case n == 0 && clock:
			q = spendRequest{Verb: tick, Seconds: 1 + r.IntN(6)}
		case n < 2:
			q = spendRequest{Verb: remaining, Account: r.IntN(team)}
		case n < 4 && len(sent) > 0:
			q = sent[max(0, len(sent)-1-r.IntN(clients))] // again, and maybe at the same time
		default:
			q.Shared = shared
			if q.Spend == 0 {
				begun = append(begun, q)
			}
			sent = append(sent, q)
		}
		p.steps = append(p.steps, step{client: len(p.steps) % clients, in: q})
	}
	p.disturb(r, impatient, strikes)
	return p
}

// newSpend returns a request that begins a spend, or one about a spend that began lately.
func newSpend(r *rand.Rand, begun []spendRequest, number int) spendRequest {
	q := spendRequest{Verb: authorize, Number: number, Account: r.IntN(team), Amount: 1 + r.Int64N(25)}
	n := r.IntN(12)
	if len(begun) == 0 {
		n = 0
	}
	if n == 1 {
		q.Verb = charge
	}
	if n > 3 {
		of := begun[max(0, len(begun)-1-r.IntN(2*clients))]
		q.Account, q.Spend, q.Amount = of.Account, of.Number, 1+r.Int64N(12)
	}
	switch n {
	case 4:
		q.Verb = increase
	case 5, 6, 7:
		q.Verb, q.Final = capture, r.IntN(2) == 0
	case 8, 9:
		q.Verb, q.Amount = void, 0
	case 10, 11:
		q.Verb = refund
	}
	return q
}

// allAccounts reads every account.
func allAccounts() (all []request) {
	for account := range accounts {
		all = append(all, spendRequest{Verb: remaining, Account: account})
	}
	return all
}

// newBudget returns a budget for a history with the ledger's clock: holds expire, and money leaves
// the window.
func newBudget(r *rand.Rand) *budget {
	return &budget{
		Single: 30, Lifetime: 80 + r.Int64N(200), Window: 40 + r.Int64N(60),
		Length: time.Duration(5+r.IntN(20)) * time.Second, TTL: time.Duration(5+r.IntN(30)) * time.Second,
	}
}

// localSpend is a ledger in this process, with the history's clock.
type localSpend struct {
	*local
	l ledger.Ledger
	b *budgets
}

func (w *localSpend) do(ctx context.Context, _ int, in request) response {
	q, _ := in.(spendRequest)
	return w.b.call(ctx, q)
}

func (w *localSpend) finals() []request { return allAccounts() }
func (w *localSpend) close() error      { return w.l.Close() }

func inMemledger(r *rand.Rand) (world, plan, error) {
	var now atomic.Int64
	clk, err := newClock(time.Second, func(us int64) error { now.Store(us); return nil })
	if err != nil {
		return nil, plan{}, err
	}
	b := newBudget(r)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return time.UnixMicro(now.Load()) }})
	sender, err := b.over(l)
	w := &localSpend{local: &local{m: &spendModel{b}, clk: clk}, l: l, b: sender}
	return w, planSpend(r, true, 0, 0), err
}

// inBoltledger returns a ledger in a bolt file, and a plan with kills.
func inBoltledger(r *rand.Rand) (world, plan, error) {
	b := newBudget(r)
	w, err := newKilled(setting{Budget: b, Region: region})
	if err != nil {
		return nil, plan{}, err
	}
	w.m, w.ends, w.death = &spendModel{b}, allAccounts(), spendRequest{Verb: tick}
	return w, planSpend(r, true, 4, kills), nil
}
