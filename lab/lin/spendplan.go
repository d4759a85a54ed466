package lin

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/memledger"
)

// spendStyle tells which requests a ledger's histories have.
type spendStyle struct {
	clock bool // the history has the ledger's clock
	joins bool // charges in a transaction of the caller's, too
	sure  bool // at least one strike
	impatient,
	strikes int // at most
}

// planSpend returns a random plan for a ledger. In half of the plans, all spends count against the
// team, too. A few calls set rules, as the search for an order takes long if many do.
func planSpend(r *rand.Rand, b *budget, s spendStyle) plan {
	p := plan{strikes: make(map[int64]bool), seed: r.Uint64()}
	shared, ahead := r.IntN(2) == 0, false
	var begun, sent []spendRequest
	revised, newest := shared || r.IntN(3) == 0, inForce{b.First, b.First} // rules join the accounts of their budget
	for number := 1; len(p.steps) < each*clients; number++ {
		q := newSpend(r, begun, number, s.clock)
		switch n := r.IntN(20); {
		case n == 0 && s.clock:
			q = spendRequest{Verb: tick, Seconds: 1 + r.IntN(6)}
			if ahead = !shared && r.IntN(3) == 0; ahead { // accounts of one spend would have two times
				q.Seconds = -1 - r.IntN(back)
			}
		case n < 2:
			q = spendRequest{Verb: remaining, Account: r.IntN(team)}
		case n == 2 && revised && r.IntN(4) == 0:
			for account := r.IntN(accounts); ; { // maybe two at the same time
				q = newest.revised(r, account, s.clock)
				if r.IntN(2) == 0 {
					break
				}
				p.steps = append(p.steps, step{client: len(p.steps) % clients, in: q})
			}
		case n < 4 && len(sent) > 0:
			q = sent[max(0, len(sent)-1-r.IntN(clients))] // again, and maybe at the same time
		default:
			q.Shared = shared && !q.Verb.alone()
			q.Other = r.IntN(3) == 0
			q.Joined = s.joins && q.Verb == charge && r.IntN(2) == 0
			q.Starts = !q.Joined && r.IntN(40) == 0
			if ahead { // of the clock, which has stepped back
				q, ahead = spendRequest{Verb: mend, Number: number, Account: r.IntN(team)}, false
			}
			if q.Verb.begins() {
				begun = append(begun, q)
				if r.IntN(10) == 0 { // before the request, or at the same time
					sent = append(sent, q.canceled())
					p.steps = append(p.steps, step{client: len(p.steps) % clients, in: q.canceled()})
				}
			}
			sent = append(sent, q)
		}
		p.steps = append(p.steps, step{client: len(p.steps) % clients, in: q})
	}
	p.disturb(r, s.impatient, s.strikes, s.sure)
	return p
}

// verbs are the verbs of the requests, as often as they are drawn.
var verbs = slices.Concat(
	slices.Repeat([]verb{authorize}, 12), slices.Repeat([]verb{charge, upTo, increase}, 6), slices.Repeat([]verb{record}, 2),
	slices.Repeat([]verb{capture}, 12), slices.Repeat([]verb{void, decrease, credit, cancelID}, 4), slices.Repeat([]verb{refund}, 8),
	slices.Repeat([]verb{unfreeze}, 5), slices.Repeat([]verb{extend, reverse}, 3), slices.Repeat([]verb{setLimits}, 3), slices.Repeat([]verb{mend, move}, 2), []verb{freeze},
)

// newSpend returns a request that begins a spend, one about a spend that began lately, or one about
// an account. clock tells whether the history has the ledger's clock.
func newSpend(r *rand.Rand, begun []spendRequest, number int, clock bool) spendRequest {
	q := spendRequest{Verb: verbs[r.IntN(len(verbs))], Number: number, Account: r.IntN(team), Amount: 1 + r.Int64N(25)}
	switch q.Verb {
	case authorize:
		q.Force = r.IntN(5) == 0
	case charge, record, credit:
	case upTo:
		q.Least, q.Hold = 1+r.Int64N(q.Amount), r.IntN(2) == 0
	case setLimits:
		q.Account, q.Rule = r.IntN(accounts), r.IntN(rules)
		switch r.IntN(4) {
		case 0, 1:
			q.Default, q.Amount = true, 0
			return q
		case 2:
			q.Amount = leastLimits[q.Rule] - r.Int64N(1+leastLimits[q.Rule]/2)
		default:
			q.Add, q.Amount = true, r.Int64N(16)-10
		}
		if clock && r.IntN(2) == 0 {
			q.Until = 1 + r.IntN(mostSeconds)
		}
	case freeze, unfreeze, mend, move:
		q.Account, q.Amount = r.IntN(accounts), 0
	default:
		if len(begun) == 0 {
			q.Verb = authorize
			break
		}
		of := begun[max(0, len(begun)-1-r.IntN(2*clients))]
		if q.Verb == cancelID {
			return of.canceled()
		}
		q.Force = (q.Verb == capture || q.Verb == refund) && r.IntN(4) == 0
		q.Account, q.Spend, q.Amount = of.Account, of.Number, 1+r.Int64N(12)
		q.Final = q.Verb == capture && r.IntN(2) == 0
		switch q.Verb {
		case void, extend:
			q.Amount = 0
		case reverse: // of a part of a refund
			q.Amount = 1 + r.Int64N(3)
		}
	}
	return q
}

// revised returns a request that sets other rules than the newest, and mostly newer ones. It takes
// newer ones for the newest.
func (f *inForce) revised(r *rand.Rand, account int, clock bool) spendRequest {
	q := spendRequest{Verb: setRules, Account: account, Rules: newRules(r, clock), Other: r.IntN(2) == 0, Starts: r.IntN(3) == 0}
	last := f.of(account)
	if r.IntN(8) == 0 {
		q.Rules = *last
		return q
	}
	q.Rules.Revision = max(0, last.Revision+r.Int64N(4)-1)
	if q.Rules.Revision > last.Revision {
		*last = q.Rules
	}
	return q
}

// canceled is the cancellation of a request.
func (q spendRequest) canceled() spendRequest {
	return spendRequest{Verb: cancelID, Number: -q.Number, Account: q.Account, Shared: q.Shared}
}

// begins reports whether a request begins a spend.
func (v verb) begins() bool { return v == authorize || v == charge || v == record || v == upTo }

// alone reports whether a request is about an account alone.
func (v verb) alone() bool {
	return slices.Contains([]verb{setLimits, freeze, unfreeze, mend, move}, v)
}

// allAccounts reads every account.
func allAccounts() (all []request) {
	for account := range accounts {
		all = append(all, spendRequest{Verb: remaining, Account: account})
	}
	return all
}

// leastLimits are the smallest amounts of the rules of newRules, so that every budget allows an
// account's own limit of as much.
var leastLimits = [rules]int64{single: 30, lifetime: 80, window: 40, extra: 80}

// mostSeconds is about the number of seconds by which the clock moves in a history.
const mostSeconds = 60

// newBudget returns a budget for a history. clock tells whether it has the ledger's clock: then
// holds expire, and money leaves the window.
func newBudget(r *rand.Rand, clock bool) *budget {
	b := &budget{First: newRules(r, clock), TTL: time.Hour}
	if clock {
		b.TTL = time.Duration(5+r.IntN(30)) * time.Second
	}
	return b
}

// newRules returns rules for a budget of such a history.
func newRules(r *rand.Rand, clock bool) Rules {
	length := time.Duration(1+r.IntN(3)) * time.Hour
	if clock {
		length = time.Duration(5+r.IntN(20)) * time.Second
	}
	return Rules{
		Single: leastLimits[single] + r.Int64N(10), Lifetime: leastLimits[lifetime] + r.Int64N(200),
		Window: leastLimits[window] + r.Int64N(60), Length: length, Extra: r.IntN(2) == 0,
	}
}

// inMemledger returns a ledger in this process, with the history's clock.
func inMemledger(r *rand.Rand) (world, plan, error) {
	clk, read, err := newShared()
	if err != nil {
		return nil, plan{}, err
	}
	b := newBudget(r, true)
	l := memledger.New(&memledger.Options{Clock: read})
	w := &inProcess{m: newSpendModel(b), clk: clk, ends: allAccounts(), inner: l}
	w.spends, err = b.over(context.Background(), l)
	return w, planSpend(r, b, spendStyle{clock: true}), err
}

// ledgerInFile returns a ledger in a bolt file, or in a database of SQLite, and a plan with kills.
func ledgerInFile(s Setting) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		b := newBudget(r, true)
		s.Budget = b
		w, err := newKilled(s)
		if err != nil {
			return nil, plan{}, err
		}
		w.m, w.ends, w.death = newSpendModel(b), allAccounts(), spendRequest{Verb: tick}
		return w, planSpend(r, b, spendStyle{clock: true, impatient: 4, strikes: kills}), nil
	}
}
