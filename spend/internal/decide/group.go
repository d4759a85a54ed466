package decide

import (
	"errors"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// group is the accounts of a decision, at one time.
type group struct {
	decider  *Decider
	snap     ledger.Snapshot
	known    *known // rules that the job knows
	clock    int64  // of the ledger
	now      int64  // the latest of the clock and the times of the accounts
	accounts []*account
	tags     map[string]string // of the spend or the credit
	refusals []demand          // of rules that refuse, and of accounts that are frozen
	ending   []demand          // of rules that agree, in an account with a raised limit that ends
	shadows  []demand          // of rules that would refuse
	filled   []demand          // of rules that agreed, and that the decline itself has filled
	shares   []int64           // of the rules before the action; see [group.note]
}

// demand is the units for which a rule is asked, or an account that is frozen.
type demand struct {
	account, rule int // indices
	n             int64
}

// frozen is the rule of a demand that says that the account is frozen.
const frozen = -1

// FrozenPrefix begins the reason of a freeze among the names of the rules that refused. No rule has
// a name that begins so.
const FrozenPrefix = "frozen: "

// ShadowPrefix begins the name of a rule there that would have refused.
const ShadowPrefix = "shadow: "

// load reads the accounts and advances each of them to the ledger's clock. An account that is ahead
// of the clock keeps its own time, and does not pass it on to the others. If plan is not nil, the
// accounts get the rules of that plan.
func (g *group) load(keys []string, plan *string) error {
	g.clock = g.snap.Now()
	g.now = g.clock
	for _, key := range keys {
		a, err := g.loadOne(key, plan)
		if err != nil {
			return err
		}
		g.accounts = append(g.accounts, a)
		g.now = max(g.now, a.time)
	}
	var begin many
	for _, a := range g.accounts {
		if err := a.use(g.decider.counts); err != nil {
			return err
		}
		switch err := a.advance(max(g.clock, a.time), true); {
		case errors.Is(err, figures.ErrMany):
			begin = append(begin, uncounted{a.key, a.plan})
		case err != nil:
			return err
		}
		a.leak()
	}
	if begin != nil {
		return begin
	}
	g.note()
	return nil
}

// countable returns an error if a Leaky rule cannot count an amount.
func (g *group) countable(n int64) error {
	for r, u := range g.rules {
		if n > store.MaxAmount && u.Rule.Span() == figures.Leaks {
			currency := g.accounts[r.account].currency
			return fmt.Errorf("spend: %w: %v; Leaky rule %q counts up to 2^53 minor units: %v", money.ErrAmount,
				money.Money{Minor: n, Currency: currency}, u.Name, money.Money{Minor: store.MaxAmount, Currency: currency})
		}
	}
	return nil
}

// keys returns the keys of the accounts.
func (g *group) keys() (list []string) {
	for _, a := range g.accounts {
		list = append(list, a.key)
	}
	return list
}

// enter loads the accounts for a decision, which ends some of their expired holds.
func (g *group) enter(keys []string, plan *string) error {
	err := g.load(keys, plan)
	for i := 0; err == nil && i < len(g.accounts); i++ {
		err = g.accounts[i].endExpired(mostEnds)
	}
	return err
}

// rules yields the tallies of all accounts.
func (g *group) rules(yield func(demand, *figures.Tally) bool) {
	for i, a := range g.accounts {
		for j, u := range a.tallies {
			if !yield(demand{account: i, rule: j}, u) {
				return
			}
		}
	}
}

// place returns the place of a rule among those of all accounts.
func (g *group) place(r demand) int {
	n := r.rule
	for _, a := range g.accounts[:r.account] {
		n += len(a.tallies)
	}
	return n
}

// figure returns the figure that a demand asks, and its account.
func (g *group) figure(r demand) (figures.Figure, *account) {
	a := g.accounts[r.account]
	return a.tallies[r.rule].Of(g.tags), a
}

// fit reports whether all rules agree, and no account is frozen.
func (g *group) fit(q *figures.Ask) bool {
	if slices.ContainsFunc(g.accounts, func(a *account) bool { return a.frozen != "" }) {
		return false
	}
	for r, u := range g.rules {
		if !u.Rule.Shadow && !q.Fits(u, g.accounts[r.account].time) {
			return false
		}
	}
	return true
}

// refused returns the names of the rules that refuse in an account, and the reason of a freeze, as
// entries have them.
func (g *group) refused(account int) (names []string) {
	a := g.accounts[account]
	for _, r := range g.refusals {
		switch {
		case r.account != account:
		case r.rule == frozen:
			names = append(names, FrozenPrefix+a.frozen)
		default:
			names = append(names, a.tallies[r.rule].Name)
		}
	}
	for _, r := range g.shadows {
		if r.account == account {
			names = append(names, ShadowPrefix+a.tallies[r.rule].Name)
		}
	}
	return names
}

// ask asks every rule of every account, and records the refusals.
func (g *group) ask(q *figures.Ask) (agreed bool) {
	for i, a := range g.accounts {
		if a.frozen != "" {
			g.refusals = append(g.refusals, demand{account: i, rule: frozen})
		}
		for j, u := range a.tallies {
			r := demand{account: i, rule: j, n: q.Of(u.Rule)}
			switch fits := q.Fits(u, a.time); {
			case !fits && u.Rule.Shadow:
				g.shadows = append(g.shadows, r)
			case !fits:
				g.refusals = append(g.refusals, r)
			case u.Rule.Shadow:
			case u.Rule.Span() == figures.Leaks && r.n == 0: // a bucket takes nothing always
			case u.Amounts.Until != maxTime && u.Rule.Matches(q.Tags, q.First):
				g.ending = append(g.ending, r)
			}
		}
	}
	return len(g.refusals) == 0
}

// largest returns the largest amount from least to most which all rules would approve, or least. A
// rule that approves an amount approves all smaller ones, unless it applies to smaller ones
// only, by MatchingAtMost. So each range between such bounds is searched by itself.
func (g *group) largest(least, most int64) int64 {
	fits := func(n int64) bool { return g.fit(&figures.Ask{Units: n, First: n, Total: n, Spends: 1, Tags: g.tags}) }
	lows := []int64{least}
	for _, u := range g.rules {
		for _, b := range u.Rule.Bounds {
			if n := b.Amount.Minor; b.Most && n >= least && n < most {
				lows = append(lows, n+1)
			}
		}
	}
	slices.Sort(lows)
	for _, low := range slices.Backward(slices.Compact(lows)) {
		if fits(low) {
			return largestOf(low, most, fits)
		}
		most = low - 1
	}
	return least
}

// largestOf returns the largest amount from low to high that fits, or low.
func largestOf(low, high int64, fits func(n int64) bool) int64 {
	for low < high {
		if middle := high - (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// fill notes the rules that a decline has filled, which counts as a spend in them.
func (g *group) fill(q *figures.Ask) {
	for r, u := range g.rules {
		r.n = q.Spends
		if u.Rule.Declines && !u.Rule.Shadow && !slices.Contains(g.refusals, r) && !q.Fits(u, g.accounts[r.account].time) {
			g.filled = append(g.filled, r)
		}
	}
}

// note notes the shares of the accounts before the decision, under the limits of the last decision.
// A share of a limit that has been raised since counts as reached only if it still is.
func (g *group) note() {
	for r, u := range g.rules {
		f, now := u.Of(g.tags), g.accounts[r.account].time
		share := f.Share(u.Told, now)
		if u.Amounts.Now > u.Told {
			share = min(share, f.Share(u.Amounts.Now, now))
		}
		g.shares = append(g.shares, share)
	}
}

// cross adds the shares to out that its decision tells. out has the figures of the rules, without
// those of each value if the decision is about none.
func (g *group) cross(out *Answer, valueless bool) {
	figure, before := 0, g.shares
	for r, u := range g.rules {
		was := before[0]
		before = before[1:]
		if u.Rule.Each && valueless {
			continue
		}
		switch {
		case len(u.Rule.Thresholds) == 0:
			u.Told = 0
		case u.Amounts.Now > 0:
			u.Told = u.Amounts.Now
		}
		f := u.Of(g.tags)
		is := f.Share(u.Amounts.Now, g.accounts[r.account].time)
		for _, p := range u.Rule.Thresholds {
			if was < int64(p) && int64(p) <= is {
				out.Crossed = append(out.Crossed, Crossing{figure, p})
			}
		}
		figure++
	}
}

// answer returns the decision of the accounts. A decision that is about no value leaves the rules
// for each value out: no such rule refuses it.
func (g *group) answer(valueless bool) (Answer, error) {
	out := Answer{Approved: len(g.refusals) == 0, At: g.now}
	for i, a := range g.accounts {
		out.Accounts = append(out.Accounts, a.key)
		for j, u := range a.tallies {
			if u.Rule.Each && valueless {
				continue
			}
			f := u.Of(g.tags)
			out.Remaining = append(slices.Grow(out.Remaining, len(a.tallies)-j), Usage{i, f.Report(a.time)})
		}
	}
	for _, r := range g.shadows {
		out.Shadow = append(out.Shadow, g.place(r))
	}
	if out.Approved {
		return out, nil
	}
	return out, g.tellWaits(&out)
}

// tellWaits tells how long each refusal lasts.
func (g *group) tellWaits(out *Answer) error {
	asked, last := g.ending, figures.Wait{At: g.clock}
	for i, r := range slices.Concat(g.refusals, g.filled) {
		if r.rule == frozen {
			d := Decline{Usage: -1, Account: r.account, RetryAfter: store.Never, Frozen: g.accounts[r.account].frozen}
			out.Declines, last.At = append(out.Declines, d), maxTime
			continue
		}
		f, a := g.figure(r)
		w, err := f.Wait(a, r.n, a.time, figures.Horizon)
		if err != nil {
			return err
		}
		asked, last = append(asked, r), figures.Wait{At: max(last.At, w.At), AtLeast: last.AtLeast || w.AtLeast}
		if i < len(g.refusals) {
			// The caller waits by the ledger's clock, which the account's time may be ahead of.
			d := Decline{Usage: g.place(r), RetryAfter: w.After(g.clock), AtLeast: w.AtLeast}
			out.Declines = append(out.Declines, d)
		}
	}
	w, err := g.waitForAll(asked, last)
	out.RetryAfter, out.AtLeast = w.After(g.clock), w.AtLeast && w.At != maxTime
	return err
}

// waitForAll returns the first time, not before that of first, at which every rule of asked has
// room for its units, if nobody else spends. A rule that has room at one time may have none at a
// later time: a raised limit ends. Until then its room only grows, so at most one more round for
// each rule is needed.
func (g *group) waitForAll(asked []demand, first figures.Wait) (figures.Wait, error) {
	for first.At != maxTime {
		before := first.At
		for _, r := range asked {
			f, a := g.figure(r)
			if f.Amounts.Until == maxTime {
				continue // its room only grows
			}
			w, err := f.Wait(a, r.n, first.At, figures.Horizon)
			if err != nil {
				return figures.Wait{}, err
			}
			first = figures.Wait{At: w.At, AtLeast: first.AtLeast || w.AtLeast}
		}
		if first.At == before {
			break
		}
	}
	return first, nil
}

// credited returns the parts of a credit that the rules of the account count.
func (a *account) credited(e *ledger.Entry) (list []ledger.Credited) {
	for _, u := range a.tallies {
		if c := u.Credit(e, a.time); c.Amount > 0 {
			list = append(list, c)
		}
	}
	return list
}

// credit adds a credit to every account.
func (g *group) credit(credit ledger.Entry) error {
	credit.Kind, credit.Tags = figures.KindCredit, g.tags
	for _, a := range g.accounts {
		e := credit
		e.Credited = a.credited(&e)
		if err := a.add(e); err != nil {
			return err
		}
	}
	return nil
}
