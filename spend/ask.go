package spend

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// AbleToAccept reports whether Charge would approve r now. It writes nothing and ignores the ID of
// r. The decision has no Amount, and the figures of now. Another caller may spend before the answer
// arrives: call Charge or Authorize to decide.
func (b *Budgets) AbleToAccept(ctx context.Context, r Request) (_ Decision, err error) {
	c := b.begin(ctx, "able_to_accept")
	defer c.end(&err)
	act, err := b.newCharge(c.ctx, figures.KindSpend, r)
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
	answer, err := b.decider.Remaining(c.ctx, key)
	if err != nil {
		return nil, err
	}
	return newDecision(&answer).Remaining, nil
}

// Verify proves all that the ledger has of an account, and changes nothing. A difference is
// [store.ErrCorrupt]:
//
//   - An entry is missing, or is not as it was made.
//   - The figures of a rule are not those of the entries. The buckets of [Leaky] rules are filled
//     again from the last change of the leak rate on. A [Lifetime] rule begins with the sums of the
//     entries that Prune has removed.
//   - A spend, a hold, or the end of a hold is not as the entries tell, or is missing.
//   - A request that an entry names is missing, although it is younger than [Options.KeepIDs],
//     which must not be longer than that of a process that prunes.
//   - The row of the account, a request, a spend or a revision of the rules does not match its
//     checksum, or a revision before the newest is missing.
//
// Verify reads pages of some hundred entries, each as of its own time, so others decide on the
// account meanwhile. It remembers some hundred bytes of each spend, of up to 262,144 of them: then
// it reads the rest of the entries once more for the next ones. It also reads the open holds at
// once.
//
// After a Prune, Verify proves the figures for which the entries are still there, and the spends
// that began with these. In an account that [Budgets.Mend] has set right, it does not prove the
// used amount of a rule that has counted credits: the entries do not tell when they happened.
func (b *Budgets) Verify(ctx context.Context, account string) (err error) {
	c := b.begin(ctx, "verify")
	defer c.end(&err)
	key, err := b.key(account)
	if err != nil {
		return err
	}
	if err := b.verifyRules(c.ctx); err != nil {
		return err
	}
	return b.decider.Verify(c.ctx, key)
}

// VerifyAll is [Budgets.Verify] of all accounts of the main budget, in the byte order of their
// names. It returns their number, and an error names the account. It also finds entries and holds
// that belong to no account, of any budget. An account that is gone without a trace cannot be
// found: one whose entries Prune has removed, and that has no open hold.
func (b *Budgets) VerifyAll(ctx context.Context) (accounts int, err error) {
	c := b.begin(ctx, "verify_all")
	defer c.end(&err)
	if err := b.verifyRules(c.ctx); err != nil {
		return 0, err
	}
	if l, ok := b.decider.Ledger.(ledger.StrayFinder); ok {
		if err := l.Strays(c.ctx); err != nil {
			return 0, err
		}
	}
	for key, err := range b.keys(c.ctx, "") {
		if err != nil {
			return accounts, err
		}
		if err := b.decider.Verify(c.ctx, key); err != nil {
			return accounts, fmt.Errorf("account %q: %w", accountOf(key).Name, err)
		}
		accounts++
	}
	return accounts, nil
}

// verifyRules proves all revisions of the rules.
func (b *Budgets) verifyRules(ctx context.Context) error {
	for _, err := range b.decider.Revisions(ctx, b.main.Name) {
		if err != nil {
			return err
		}
	}
	return nil
}
