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
	watch    []ledger.Watch   // of the account as it is stored
	due      int64            // as it is stored: the earliest time at which Prune may have something to do; 0 for never
	frozen   string           // why the account declines; empty if it does not
	plan     string           // whose rules the account has; empty for those of the budget
	own      ownLimits        // of the account
	currency string           // in which the figures are stored
	tallies  []*figures.Tally // one for each rule of the plan, in the same order
	unknown  []*figures.Tally // of rules that the plan lacks; other processes may use these rules
}

// loadBare reads an account of the budget, all of whose rules are unknown. An account that the
// ledger does not have is empty.
func (d *Decider) loadBare(budget *Budget, snap ledger.Snapshot, key string) (*account, error) {
	stored, err := snap.Account(key)
	if err != nil {
		return nil, err
	}
	a := &account{
		past:   past{key: key, snap: snap, time: minTime, pruned: minTime},
		budget: budget, currency: budget.Currency, keepIDs: d.KeepIDs.Microseconds(), watch: stored.Watch, due: stored.Due,
	}
	if stored.Pruned != 0 {
		a.pruned = stored.Pruned
	}
	if stored.State == nil {
		return a, nil
	}
	if err := a.decode(&stored); err != nil {
		return nil, err
	}
	if a.currency != budget.Currency {
		return nil, fmt.Errorf("spend: %w: the accounts of budget %q are counted in %.8q and not in %q; "+
			"a budget that counts in another unit needs another name", money.ErrCurrency, budget.Name, a.currency, budget.Currency)
	}
	return a, nil
}

// useRules gives an account that has been loaded bare the rules of its plan.
func (a *account) useRules() error {
	plan := a.budget.Plans[a.plan]
	if plan == nil {
		return fmt.Errorf("spend: %w: an account has the plan %.64q, which budget %q lacks; add it to Budget.Plans of every process",
			ErrBudget, a.plan, a.budget.Name)
	}
	a.tallies = make([]*figures.Tally, 0, len(plan.Rules))
	for i := range plan.Rules {
		r, fingerprint := &plan.Rules[i], plan.Fingerprints[i]
		at := slices.IndexFunc(a.unknown, func(u *figures.Tally) bool { return u.Is(r, fingerprint) })
		if at < 0 {
			a.tallies = append(a.tallies, figures.New(r, fingerprint))
			continue
		}
		a.unknown[at].Use(r)
		a.tallies = append(a.tallies, a.unknown[at])
		a.unknown = slices.Delete(a.unknown, at, at+1)
	}
	return nil
}

// advance brings the account to now: rules count the entries that they have missed, entries leave
// windows, and expired holds leave the sums. The ledger stores these changes together with the
// decision.
func (a *account) advance(now int64) error {
	last := a.time
	a.time = now
	a.pass(now)
	a.useLimits()
	for _, u := range a.tallies {
		if err := u.Advance(a, last, now); err != nil {
			return err
		}
	}
	return nil
}

// useLimits gives the rules the limits that they have at the time of the account.
func (a *account) useLimits() {
	for _, u := range a.tallies {
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

// forget drops the rules that this process lacks and that have not decided on the account for
// KeepIDs. Prune drops no rule: whether one returns as it was must not depend on when Prune ran.
func (a *account) forget() {
	a.unknown = slices.DeleteFunc(a.unknown, func(u *figures.Tally) bool { return u.Forgotten(a.time, a.keepIDs) })
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
	for _, u := range a.tallies {
		if err := u.Count(&e, a.time); err != nil {
			return 0, err
		}
	}
	return e.Seq, nil
}

// mend sets the account to a time before its own. Rules with a window count the entries anew. Those
// of other processes do so when they return.
func (a *account) mend(now int64) error {
	if now >= a.time {
		return nil
	}
	tallies, removed := slices.Concat(a.tallies, a.unknown), a.Removed()
	for _, u := range tallies {
		if date, ok := u.Needs(now); ok && date < removed {
			return BadRequest("Prune has removed entries of %v and before, and rule %q still needs some of them", utc(removed), u.Name)
		}
	}
	top := a.time
	a.mends = append(a.mends, mend{now, top, a.seq})
	a.time = now
	a.useLimits()
	for _, u := range tallies {
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
