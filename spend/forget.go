package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// ForgetRule takes the figures of a retired rule from all accounts of the main budget, and returns
// the number of accounts that had some. Until then [Budgets.Prune] keeps the entries that the rule
// may need: for a [Lifetime] rule, those since its last decision. Call it once no process has the
// rule any more. If the rule comes back, it counts the entries that are left. ForgetRule goes
// by the name: give a Lifetime rule with another filter another name.
//
// Each of these accounts gets an entry of kind forget, whose Tags have the rule and the reason, which
// is 1 to 256 bytes of UTF-8 without control characters. A rule of this budget is [ErrBudget]. After
// an error, call ForgetRule again to continue. If single accounts are damaged, ForgetRule goes
// through all others first, and then returns an error that is [store.ErrCorrupt].
func (b *Budgets) ForgetRule(ctx context.Context, rule, reason string) (accounts int64, err error) {
	c := b.begin(ctx, "forget_rule")
	defer c.end(&err)
	switch {
	case slices.ContainsFunc(b.main.allRules(), func(r *Rule) bool { return r.name == rule }):
		return 0, fmt.Errorf("spend: %w: budget %q has rule %q; take the rule away from every process first",
			ErrBudget, b.main.Name, rule)
	case !validName(rule):
		return 0, requestErr("the name of a rule must be 1 to 64 bytes of UTF-8 without control characters")
	case reason == "":
		return 0, requestErr("ForgetRule needs a reason")
	}
	if err := checkReason(reason); err != nil {
		return 0, err
	}
	damage, err := b.eachPage(c.ctx, 0, func(page []string) error {
		jobs, had := make([]*ledger.Job, len(page)), make([]bool, len(page))
		for i, key := range page {
			jobs[i] = b.forgetJob(key, rule, reason, &had[i])
		}
		var damage error
		for i, err := range b.ledger.DecideAll(c.ctx, jobs) {
			switch {
			case errors.Is(err, store.ErrCorrupt):
				damage = cmp.Or(damage, err)
			case err != nil:
				return err
			case had[i]:
				accounts++
			}
		}
		return damage
	})
	return accounts, cmp.Or(err, damage)
}

// forgetJob returns a job that takes the figures of a rule from an account, if it has some.
func (b *Budgets) forgetJob(key, rule, reason string, had *bool) *ledger.Job {
	return &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := b.advanceBare(snap, key)
		if err != nil {
			return nil, err
		}
		is := func(u *tally) bool { return u.name == rule }
		if *had = slices.ContainsFunc(a.unknown, is); !*had {
			return nil, nil
		}
		a.unknown = slices.DeleteFunc(a.unknown, is)
		last := a.seq
		if err := a.add(ledger.Entry{Kind: kindForget, Tags: map[string]string{"rule": rule, "reason": reason}}); err != nil {
			return nil, err
		}
		a.pass(last)
		a.due = ending(snap.Now()) // Prune may drop the entries that the rule has needed
		return a.bare(), nil
	}}
}

// advanceBare brings an account of the main budget to now for a job that uses no rule: if a rule
// counted, leaked or began there, the time of the job would change later decisions.
func (b *Budgets) advanceBare(snap ledger.Snapshot, key string) (*account, error) {
	a, err := b.loadBare(b.main, snap, key)
	if err == nil {
		err = a.advance(max(snap.Now(), a.time))
	}
	return a, err
}

// pass lets the rules pass the entries after last of a job that has used no rule, if they have counted
// all others. These entries change no figure. A rule that had yet to count them would keep them, and
// all entries before them, in an account that nobody uses any more.
func (a *account) pass(last int64) {
	for _, u := range a.unknown {
		if u.countedSeq == last {
			u.countedSeq, u.quiet = a.seq, min(u.quiet, a.time-1)
		}
	}
}

// bare returns the changes of a job that has used no rule. The windows to watch are those of before.
func (a *account) bare() *ledger.Changes {
	stored := a.stored()
	stored.Watch = a.watch
	return &ledger.Changes{Accounts: []ledger.Account{stored}, Entries: a.added, Closed: a.closed}
}
