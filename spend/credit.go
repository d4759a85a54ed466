package spend

import (
	"context"

	"github.com/brimgo/brim/spend/ledger"
)

// CountsCredits returns a rule in which a [Budgets.Credit] makes room. Without it, a credit changes
// nothing in the rule. [Leaky], [Calendar] and [Lifetime] rules can count credits. A [Rolling] rule
// cannot: units leave its window one by one, and a credit would also pay for units that leave soon.
//
// With and without CountsCredits, a rule keeps the credits that it has counted. If a rule gets or
// loses CountsCredits, only later credits are affected. A rule that is new to an account counts no
// earlier credit either. A rule is new if its window or a filter has changed, or if the account has
// dropped it: at a decision of a process without the rule, more than [Options.KeepIDs] after the
// last decision with it.
func (r Rule) CountsCredits() Rule {
	r.credits = true
	return r
}

// Credit notes money that came in and is no refund of a spend: a payment to the card, a salary, a
// reward. It is never declined, also not by a frozen account. It ignores TTL and Dated: a credit is
// dated now.
//
// A rule with [Rule.CountsCredits] counts the credit if the credit passes the filters of the rule.
// It counts at most the used amount that the rule has at that moment. The rest makes no room, now
// or later. From a [Leaky] rule, the counted part drains units. In a [Calendar] or [Lifetime] rule
// it lowers Used, and a later refund lowers Used further, never below 0. If the periods of a
// Calendar rule begin at another time, in another zone, the rule counts the spends of the period
// anew and no credit of before.
//
// Retries and errors are those of [Budgets.Charge]. The ID begins no spend: a credit cannot be
// refunded.
func (b *Budgets) Credit(ctx context.Context, r Request) (Decision, error) {
	return b.sendCharge(ctx, kindCredit, r, nil)
}

// credit adds a credit to every account.
func (t *attempt) credit(credit ledger.Entry) error {
	credit.Kind, credit.RequestID, credit.Tags = kindCredit, t.act.id, t.tags
	for _, a := range t.accounts {
		e := credit
		for _, u := range a.tallies {
			if !u.rule.credits || !u.rule.matches(e.Tags, e.SpendAmount) {
				continue
			}
			if n := min(e.Amount, u.of(e.Tags).creditable(a.time)); n > 0 {
				e.Credited = append(e.Credited, ledger.Credited{Rule: u.name, Counts: u.fingerprint, Amount: n})
			}
		}
		if err := a.add(e); err != nil {
			return err
		}
	}
	return nil
}

// creditable returns the largest credit that the rule would count now.
func (u *tally) creditable(now int64) int64 {
	if u.rule.kind == leaky {
		return u.level(now)
	}
	return u.used
}

// credited returns the part of a credit that the rule has counted.
func (u *tally) credited(e *ledger.Entry) int64 {
	for i := range e.Credited {
		if c := &e.Credited[i]; c.Counts == u.fingerprint && c.Rule == u.name {
			return c.Amount
		}
	}
	return 0
}
