package spend

import (
	"context"

	"github.com/brimgo/brim/spend/ledger"
)

// AbleToAccept reports whether Charge would approve r now. It writes nothing and
// ignores the ID of r. Another caller may spend before the answer arrives: call
// Charge or Authorize to decide.
func (b *Budgets) AbleToAccept(ctx context.Context, r Request) (_ Decision, err error) {
	c := b.begin(ctx, "able_to_accept")
	defer c.end(&err)
	act, err := b.newCharge(kindSpend, r)
	if err != nil {
		return Decision{}, err
	}
	out := new(Decision)
	err = b.view(c.ctx, act, func(t *attempt) (err error) {
		t.ask(act.amount, act.amount, act.amount, 1, act.tags)
		*out, err = t.answer()
		return err
	})
	if err != nil {
		return Decision{}, err
	}
	return *out, nil
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
	key, err := b.main.key(account)
	if err != nil {
		return nil, err
	}
	list := new([]Usage)
	err = b.view(c.ctx, &action{keys: []string{key}}, func(t *attempt) (err error) {
		*list = nil
		a := t.accounts[0]
		for _, rule := range a.tallies {
			values, err := rule.all(a)
			if err != nil {
				return err
			}
			for _, u := range values {
				usage := u.report(a)
				if usage.GrowsAt, err = u.grows(a); err != nil {
					return err
				}
				*list = append(*list, usage)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// view loads the accounts of act as they are now and calls f. The ledger stores
// nothing.
func (b *Budgets) view(ctx context.Context, act *action, f func(*attempt) error) error {
	return b.ledger.View(ctx, &ledger.Job{Accounts: act.keys, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		t := &attempt{budgets: b, act: act, snap: snap, tags: act.tags}
		if err := t.load(act.keys); err != nil {
			return nil, err
		}
		return nil, f(t)
	}})
}
