package spend

import (
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
)

// Decision is the answer to a request. It is a value and never changes.
type Decision struct {
	Approved bool `json:"approved"`
	// Amount is the money that the request has moved: the amount that it asked for, or the part of
	// it that [Budgets.UpTo] approved. It is the zero Money for a decline and for a void.
	Amount Money `json:"amount,omitzero"`
	// Replayed reports that the ID had been decided before. The other fields
	// repeat that first decision and ignore all later ones.
	Replayed bool `json:"replayed,omitempty"`
	// Canceled reports that [Budgets.Cancel] has canceled the ID. Every other request with the ID
	// is declined; Approved is true in the answer to the Cancel alone. If the request had been
	// declined before, a retry and [Budgets.Get] still tell these Declines.
	Canceled bool `json:"canceled,omitempty"`
	// Declines has every rule that refused, in every account: in the order of the accounts, and of
	// their rules, after a freeze.
	Declines []Decline `json:"declines,omitempty"`
	// Shadow has the rules with [Rule.Shadow] that would have refused, with their figures after the
	// decision. Those of a Record or a forced Authorize would have refused it otherwise; a forced
	// Capture and a ReverseRefund have none.
	Shadow []Usage `json:"shadow,omitempty"`
	// Remaining has every rule of every account concerned, after the decision. If only the ledger's
	// entries can tell a GrowsAt, it is zero, and so beside open holds and beside an own limit with
	// an end; see [Budgets.Remaining]. A rule with [Rule.Per] has the figures of the request's
	// value; the answers to SetLimits, SetPlan, Freeze and Unfreeze leave such rules out.
	Remaining []Usage `json:"remaining"`
	// Crossed has the shares of limits that the accounts have reached by this decision;
	// see [Rule.Thresholds]. A retry has those of its first decision. [Budgets.AbleToAccept]
	// tells none.
	Crossed []Crossing `json:"crossed,omitempty"`
	// RetryAfter is the time until all rules would approve the amount, if nobody else spent. It is
	// 0 if the amount is approved, and [store.Never] if waiting does not help. A raised limit of
	// the account may end before another rule has room, or the decline may take the last room of a
	// rule with [Rule.CountsDeclines]; RetryAfter is then longer than that of each Decline.
	RetryAfter time.Duration `json:"-"`
	// AtLeast tells that RetryAfter may be too short; see [Decline.AtLeast]. No Decline may say
	// so: that of a rule which the decline itself has filled is missing. It is false beside Never.
	AtLeast bool `json:"at_least,omitempty"`
	// At is the time of the decision on the ledger's clock, read when nobody else could change the
	// accounts. If the last decision on one of them has a later time, At is that time. Decisions
	// that share a transaction have one time.
	At time.Time `json:"at"`
}

// Decline is a rule that refused, with its figures at the decision, or an account that is frozen.
type Decline struct {
	Usage
	// Frozen is the reason for which the account is frozen; see [Budgets.Freeze]. The decline is
	// then that of the account, and its Usage has nothing but the account.
	Frozen string `json:"frozen,omitempty"`
	// RetryAfter is the time until this rule would approve the amount, or
	// [store.Never].
	RetryAfter time.Duration `json:"-"`
	// AtLeast tells that RetryAfter may be too short. A decision looks at the first 32 entries
	// to leave the window. Declines, and entries that the rule does not count, are among these
	// entries. If they make too little room, or end among entries of one date, RetryAfter is the
	// time at which the last of them has gone; a request at that time learns more.
	AtLeast bool `json:"at_least,omitempty"`
}

// Usage is the figures of one rule in one account. Amounts of a [Count] rule are
// numbers of spends, without a currency; those of open holds are Used, and Held is 0. A
// [PerTransaction] rule never uses or holds anything. For a [Leaky] rule Used is rounded up and
// Remaining down.
type Usage struct {
	Account
	Rule string `json:"rule"`
	// Tag is the tag of a rule with [Rule.Per], and Value the value to which the figures belong.
	// Value may be empty: that of requests without the tag.
	Tag   string `json:"tag,omitempty"`
	Value string `json:"value,omitempty"`
	// Others tells that the value has no figures of its own, because the account has those of 1,000
	// values already. Used and Held are those of all such values together, and nothing remains.
	Others bool  `json:"others,omitempty"`
	Limit  Money `json:"limit"` // the amount of the rule, or the account's own limit
	Used   Money `json:"used"`  // without held money
	Held   Money `json:"held"`  // by open holds, as far as the rule counts them
	// Remaining is Limit less Used and Held, or the smallest int64 if that is below it. It may be
	// negative after Record, a forced capture or a lowered limit.
	Remaining Money `json:"remaining"`
	// GrowsAt is the time at which Remaining grows if nobody spends, or the zero
	// time if waiting does not help.
	GrowsAt time.Time `json:"grows_at,omitzero"`
}

// Crossing is a share of a limit that a decision has crossed; see [Rule.Thresholds]. Usage has the
// figures of the rule after the decision.
type Crossing struct {
	Usage
	Share int `json:"share"` // in percent
}

// newDecision returns a decision as callers see it.
func newDecision(a *decide.Answer) Decision {
	d := Decision{
		Approved: a.Approved, Amount: Money(a.Amount), Replayed: a.Replayed, Canceled: a.Canceled,
		RetryAfter: a.RetryAfter, AtLeast: a.AtLeast, At: time.UnixMicro(a.At).UTC(),
	}
	if len(a.Remaining) > 0 {
		d.Remaining = make([]Usage, len(a.Remaining))
	}
	for i := range a.Remaining {
		d.Remaining[i] = newUsage(a.Accounts[a.Remaining[i].Account], &a.Remaining[i].Usage)
	}
	if d.Declines = newDeclines(a); a.Before != nil {
		d.Declines = newDeclines(a.Before)
	}
	for _, i := range a.Shadow {
		d.Shadow = append(d.Shadow, d.Remaining[i])
	}
	for _, x := range a.Crossed {
		d.Crossed = append(d.Crossed, Crossing{d.Remaining[x.Usage], x.Share})
	}
	return d
}

func newDeclines(a *decide.Answer) (list []Decline) {
	for _, x := range a.Declines {
		d := Decline{Frozen: x.Frozen, RetryAfter: x.RetryAfter, AtLeast: x.AtLeast}
		if x.Usage < 0 {
			d.Account = accountOf(a.Accounts[x.Account])
		} else {
			u := &a.Remaining[x.Usage]
			d.Usage = newUsage(a.Accounts[u.Account], &u.Usage)
		}
		list = append(list, d)
	}
	return list
}

func newUsage(key string, u *figures.Usage) Usage {
	in := func(n int64) Money { return Money{n, u.Currency} }
	return Usage{
		Account: accountOf(key), Rule: u.Rule, Tag: u.Tag, Value: u.Value, Others: u.Others,
		Limit: in(u.Limit), Used: in(u.Used), Held: in(u.Held), Remaining: in(u.Remaining), GrowsAt: u.GrowsAt,
	}
}
