package spend

import (
	"context"

	"github.com/brimgo/brim/spend/internal/figures"
)

// AbleToAccept reports whether Charge would approve r now. It writes nothing and
// ignores the ID of r. The decision has no Amount, and the figures of now. Another caller may spend before the answer arrives: call
// Charge or Authorize to decide.
func (b *Budgets) AbleToAccept(ctx context.Context, r Request) (_ Decision, err error) {
	c := b.begin(ctx, "able_to_accept")
	defer c.end(&err)
	act, err := b.newCharge(figures.KindSpend, r)
	if err != nil {
		return Decision{}, err
	}
	answer, err := b.decider.AbleToAccept(c.ctx, act)
	if err != nil {
		return Decision{}, err
	}
	return newDecision(&answer), nil
}

// Remaining reports every rule of an account now, in the order of the budget's
// rules: the used, the held and the remaining amount, and the time at which the
// remaining amount grows if nobody spends. Of a rule with [Rule.Per], it reports
// every value with used or held units, in the order of the values. It writes
// nothing. Accounts need no registration: one that was never used has all of its
// amounts remaining.
func (b *Budgets) Remaining(ctx context.Context, account string) (_ []Usage, err error) {
	c := b.begin(ctx, "remaining")
	defer c.end(&err)
	key, err := b.key(account)
	if err != nil {
		return nil, err
	}
	usages, err := b.decider.Remaining(c.ctx, key)
	var list []Usage
	for i := range usages {
		list = append(list, newUsage(key, &usages[i]))
	}
	return list, err
}

// Verify compares the stored figures of an account with its entries. It reads all of the entries,
// adds them up, and fills the buckets of [Leaky] rules with them again, from the last change of the
// leak rate on. A [Lifetime] rule begins with the sums of the entries that Prune has removed. It
// changes nothing. A difference is [store.ErrCorrupt].
//
// After a Prune, Verify proves only the figures for which the entries are still there. In an
// account that [Budgets.Mend] has set right, it does not prove the used amount of a rule that has
// counted credits: the entries do not tell when they happened.
func (b *Budgets) Verify(ctx context.Context, account string) (err error) {
	c := b.begin(ctx, "verify")
	defer c.end(&err)
	key, err := b.key(account)
	if err != nil {
		return err
	}
	return b.decider.Verify(c.ctx, b.main, key)
}
