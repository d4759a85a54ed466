package decide

import (
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// account is the working set of an account during one decision: the figures
// that its rules need, so that the rules do not read the account's entries
// again.
type account struct {
	past
	holdings
	budget   *Budget
	keepIDs  int64
	now      int64            // the ledger's clock
	due      int64            // as it is stored: the earliest time at which Prune may have something to do; 0 for never
	frozen   string           // why the account declines; empty if it does not
	plan     string           // whose rules the account has; empty for those of the budget
	own      ownLimits        // of the account
	currency string           // in which the figures are stored
	tallies  []*figures.Tally // one for each rule of the plan, in the same order
	others   []*figures.Tally // of rules of other plans, which count and do not judge
}

// load reads an account of the budget, and gives it its rules: if plan is not nil, those of that
// plan. An account that the ledger does not have is empty.
func (d *Decider) load(budget *Budget, snap ledger.Snapshot, key string, plan *string) (*account, error) {
	stored, err := snap.Account(key)
	if err != nil {
		return nil, err
	}
	a := &account{
		past:   past{key: key, snap: snap, time: minTime, pruned: minTime},
		budget: budget, currency: budget.Currency, keepIDs: d.KeepIDs.Microseconds(), due: stored.Due,
	}
	if stored.Pruned != 0 {
		a.pruned = stored.Pruned
	}
	var kept []*figures.Tally
	if stored.State != nil {
		if kept, err = a.decode(&stored); err != nil {
			return nil, err
		}
	}
	if a.currency != budget.Currency {
		return nil, fmt.Errorf("spend: %w: the accounts of budget %q are counted in %.8q and not in %q; "+
			"a budget that counts in another unit needs another name", money.ErrCurrency, budget.Name, a.currency, budget.Currency)
	}
	if plan != nil {
		a.plan = *plan
	}
	a.now = snap.Now()
	return a, a.useRules(kept)
}

// useRules gives an account the rules of its plan, with the figures that it has kept. It keeps the
// figures of other plans that the entries cannot restore, and drops those of rules that are gone.
func (a *account) useRules(kept []*figures.Tally) error {
	plan, err := a.budget.plan(a.plan)
	if err != nil {
		return err
	}
	a.tallies, a.others = make([]*figures.Tally, 0, len(plan.Rules)), nil
	for i := range plan.Rules {
		r, fingerprint := &plan.Rules[i], plan.Fingerprints[i]
		at := slices.IndexFunc(kept, func(u *figures.Tally) bool { return u.Is(r, fingerprint) })
		if at < 0 {
			a.tallies = append(a.tallies, figures.New(r, fingerprint))
			continue
		}
		kept[at].Rule = r
		a.tallies = append(a.tallies, kept[at])
		kept = slices.Delete(kept, at, at+1)
	}
	for _, u := range kept {
		for r, fingerprint := range a.budget.rules {
			if u.Is(r, fingerprint) && !r.Recountable() {
				u.Rule = r
				a.others = append(a.others, u)
				break
			}
		}
	}
	return nil
}

// all returns the tallies of the plan, and then the others.
func (a *account) all() []*figures.Tally {
	if len(a.others) == 0 {
		return a.tallies
	}
	return slices.Concat(a.tallies, a.others)
}

// advance brings the account to now: entries leave windows, and expired holds leave the sums. The
// ledger stores these changes together with the decision. Rules that are new to the account begin,
// unless the job is a Prune: its time changes no decision.
func (a *account) advance(now int64, begin bool) error {
	last := a.time
	a.time = now
	a.pass(now)
	a.useLimits()
	for _, u := range a.all() {
		if !begin && !u.Known() {
			continue
		}
		if err := u.Advance(a, last, now); err != nil {
			return err
		}
	}
	return nil
}

// leak gives the Leaky rules of the plan their limits.
func (a *account) leak() {
	for _, u := range a.tallies {
		u.Leak(a.time)
	}
}

// useLimits gives the rules the limits that they have at the time of the account.
func (a *account) useLimits() {
	for _, u := range a.all() {
		u.Amounts = a.own.of(u.Rule, a.time)
	}
}

// mostEnds is how many expired holds a decision ends. The others are out of the sums, too: an end
// changes no figure. Later decisions and Prune end them.
const mostEnds = 2

// endExpired adds the ends of holds that have expired, at most limit of them.
func (a *account) endExpired(limit int) error {
	if a.next == 0 || a.next > a.time {
		return nil
	}
	expired, next, err := a.held(ledger.Hold{}, a.time, limit)
	if err != nil {
		return err
	}
	for _, sp := range expired {
		if err := sp.release(a, figures.KindExpire, sp.id); err != nil {
			return err
		}
		a.close(sp)
	}
	a.next = next
	return nil
}

// open adds a hold of which no part is dated before since.
func (a *account) open(expires, since int64, spendID string) {
	a.holdings.open(ledger.Hold{Account: a.key, Expires: expires, SpendID: spendID}, since)
}

// close removes the hold of a spend.
func (a *account) close(sp *spend) {
	a.holdings.close(ledger.Hold{Account: a.key, Expires: sp.expires, SpendID: sp.id}, a.expired(sp))
}

// add appends an entry that counts from now.
func (a *account) add(e ledger.Entry) error {
	_, err := a.addDated(e, a.time)
	return err
}

// addDated appends an entry that counts from a date, completes its fields from the account, and
// lets the rules count it.
func (a *account) addDated(e ledger.Entry, date int64) (seq int64, err error) {
	a.seq++
	e.Account, e.Seq, e.At, e.Dated, e.Currency = a.key, a.seq, a.Latest(a.time), date, a.budget.Currency
	if e.Dated == e.At && e.Part == 0 {
		e.Part = e.Seq
	}
	a.added = append(a.added, e)
	a.place(&e)
	for _, u := range a.all() {
		if !u.Known() {
			continue
		}
		if err := u.Count(&e, a.time); err != nil {
			return 0, err
		}
	}
	return e.Seq, nil
}

// mend sets the account to a time before its own. Rules with a window count the entries anew.
func (a *account) mend(now int64) error {
	if now >= a.time {
		return nil
	}
	removed := a.Removed()
	for _, u := range a.all() {
		if u.Rule.Windowed() && now-u.Rule.Reach() < removed {
			return BadRequest("Prune has removed entries of %v and before, and rule %q still needs some of them", utc(removed), u.Name)
		}
	}
	top := a.time
	a.mends = append(a.mends, mend{now, top, a.seq})
	a.time = now
	a.useLimits()
	for _, u := range a.all() {
		if err := u.Mend(a, now, top); err != nil {
			return err
		}
	}
	return nil
}

// holds adds the changes of the account's holds to list.
func (a *account) holds(list []Hold) []Hold {
	for i := range a.added {
		e := &a.added[i]
		h := Hold{Account: a.key, Amount: money.Money{Minor: e.Held, Currency: e.Currency}, Expired: e.Kind == figures.KindExpire}
		switch {
		case h.Expired:
			h.Amount.Minor = -e.Held
		case e.Held <= 0 || e.Kind == figures.KindExtend:
			continue
		}
		list = append(list, h)
	}
	return list
}
