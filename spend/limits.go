package spend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// LimitsRequest gives an account limits of its own, by [Budgets.SetLimits].
type LimitsRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Limits  []RuleLimit
}

// RuleLimit is an account's own limit for one rule of its budget.
type RuleLimit struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Amount takes the place of the rule's amount: from zero, which lets nothing pass, to the
	// amount of the rule, or to that of [Rule.AtMost]. For a [Count] rule it is a number of spends,
	// without a currency.
	Amount Money `json:"amount"`
	// Until ends the limit, by the ledger's clock at the decision; the zero time is no end. An
	// account can have two limits of one rule: one with an end, and one without. The one with an
	// end counts first. After its end the other one counts, or the amount of the budget if there
	// is none. The end is within 2^53 microseconds of 1970.
	Until time.Time `json:"until,omitzero"`
	// Default takes the account's own limits of the rule away, with and without an end. Amount and
	// Until are then zero.
	Default bool `json:"default,omitempty"`
	// Add adds Amount, which may be negative, to the limit that the account has: with Until, to
	// the one in force, and else to the one without an end, or to the amount of the budget. So two
	// top-ups that arrive together both count. A sum below zero is [ErrAmount].
	Add bool `json:"add,omitempty"`
}

// SetLimits gives an account limits of its own, in the place of the amounts of the budget: this
// card may spend 500 a day, and that one 5,000. All of them change together, in one decision. The
// other limits of the account stay, and no used amount is ever reset. The ledger keeps an entry of
// kind limits, whose Tags tell the new limits by rule.
//
// A limit that the budget does not allow, or of a rule that it lacks, is [ErrBudget]. A budget
// whose amounts shrink later bounds the accounts' own limits from then on. Retries and other errors
// are those of [Budgets.Charge].
func (b *Budgets) SetLimits(ctx context.Context, r LimitsRequest) (_ Decision, err error) {
	c := b.begin(ctx, "set_limits")
	defer c.end(&err)
	act, err := b.newUpkeep(kindLimits, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if len(r.Limits) == 0 {
		return Decision{}, requestErr("the request sets no limit")
	}
	act.tags = make(map[string]string)
	for _, l := range r.Limits {
		if l.Amount, err = b.inUnit(l.Amount); err != nil {
			return Decision{}, err
		}
		if err := l.check(); err != nil {
			return Decision{}, err
		}
		if _, twice := act.tags[l.Rule]; twice {
			return Decision{}, requestErr("two limits are of rule %q", l.Rule)
		}
		act.limits = append(act.limits, l)
		act.tags[l.Rule] = l.text()
	}
	act.content = b.contentOf(act)
	return b.decide(&c, act)
}

// check returns an error if no budget could allow the limit.
func (l *RuleLimit) check() error {
	switch {
	case !validName(l.Rule):
		return requestErr("the name of a rule must be 1 to 64 bytes of UTF-8 without control characters")
	case l.Default && (l.Amount != Money{} || !l.Until.IsZero() || l.Add):
		return requestErr("the limit of rule %q is the default, and has an amount or an end, or adds something, too", l.Rule)
	case l.Amount.Minor < 0 && !l.Add:
		return fmt.Errorf("spend: %w: the limit of rule %q is %v; it must be 0 or more", ErrAmount, l.Rule, l.Amount)
	case !l.Until.IsZero() && !storable(l.Until):
		return requestErr("the limit of rule %q ends in the year %d; %s", l.Rule, l.Until.Year(), storableYears)
	}
	return nil
}

// allow returns an error if the budget does not allow the limit. Rules may have changed since the
// request was sent for the first time, so only its first decision asks.
func (b *checkedBudget) allow(l *RuleLimit) error {
	i := slices.IndexFunc(b.Rules, func(r Rule) bool { return r.name == l.Rule })
	if i < 0 {
		return fmt.Errorf("spend: %w: budget %q has no rule %q", ErrBudget, b.Name, l.Rule)
	}
	r := &b.Rules[i]
	switch {
	case l.Default:
	case l.Amount.Currency != r.limit.Currency:
		return fmt.Errorf("spend: %w: the limit is in %.8q and rule %q in %q", ErrCurrency, l.Amount.Currency, l.Rule, r.limit.Currency)
	case l.Amount.Minor > r.most():
		return fmt.Errorf("spend: %w: the limit is %v; rule %q allows an account at most %v (see Rule.AtMost)",
			ErrBudget, l.Amount, l.Rule, Money{r.most(), r.limit.Currency})
	}
	return nil
}

// text describes the limit in an entry.
func (l *RuleLimit) text() string {
	if l.Default {
		return "default"
	}
	s := l.Amount.String() // of a number of spends, the number alone
	if l.Add {
		s = "add " + s
	}
	if !l.Until.IsZero() {
		s += " until " + l.Until.UTC().Format(time.RFC3339Nano)
	}
	return s
}

// Limits returns the account's own limits that are in force or will be, in the order of their
// rules. A rule has up to two: one with an end, and then one without. It writes nothing.
func (b *Budgets) Limits(ctx context.Context, account string) (_ []RuleLimit, err error) {
	c := b.begin(ctx, "limits")
	defer c.end(&err)
	key, err := b.main.key(account)
	if err != nil {
		return nil, err
	}
	list := new([]RuleLimit)
	err = b.view(c.ctx, &action{keys: []string{key}}, func(t *attempt) error {
		*list = nil
		for _, u := range t.accounts[0].tallies {
			own := t.accounts[0].ownLimit(u.rule.name)
			in := func(n int64) Money { return Money{n, u.rule.limit.Currency} }
			if own.raises(t.accounts[0].time) {
				*list = append(*list, RuleLimit{Rule: own.rule, Amount: in(own.raised), Until: time.UnixMicro(own.until).UTC()})
			}
			if own.set {
				*list = append(*list, RuleLimit{Rule: own.rule, Amount: in(own.amount)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// FreezeRequest freezes, unfreezes or mends an account.
type FreezeRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Reason  string // 1 to 256 bytes of UTF-8 without control characters; optional for Unfreeze
}

// Freeze makes an account decline Charge, Authorize, Increase and UpTo, with the reason in
// [Decline.Frozen]. Money that has moved is still accounted for: Capture, Void, Decrease, Refund,
// Record and Credit go on. So does Extend, which takes no room: a hold can be kept for its capture.
// A frozen account that is frozen again has the new reason. The ledger keeps an entry of kind
// freeze, whose Tags have the reason. Retries and errors are those of [Budgets.Charge].
func (b *Budgets) Freeze(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, kindFreeze, r)
}

// Unfreeze ends [Budgets.Freeze]. An account that is not frozen stays as it is. The ledger keeps an
// entry of kind unfreeze. Retries and errors are those of [Budgets.Charge].
func (b *Budgets) Unfreeze(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, kindUnfreeze, r)
}

func (b *Budgets) sendFreeze(ctx context.Context, kind string, r FreezeRequest) (_ Decision, err error) {
	c := b.begin(ctx, kind)
	defer c.end(&err)
	if kind != kindUnfreeze && r.Reason == "" {
		return Decision{}, requestErr("a %s needs a reason", kind)
	}
	act, err := b.newUpkeep(kind, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if err := checkReason(r.Reason); err != nil {
		return Decision{}, err
	}
	if r.Reason != "" {
		act.tags = map[string]string{"reason": r.Reason}
	}
	act.content = b.contentOf(act)
	return b.decide(&c, act)
}

func checkReason(reason string) error {
	if len(reason) > maxTagValue || !validText(reason) {
		return requestErr("a reason must be up to %d bytes of UTF-8 without control characters", maxTagValue)
	}
	return nil
}

// newUpkeep returns an action on an account of the main budget that moves no money.
func (b *Budgets) newUpkeep(kind, id, account string) (*action, error) {
	if err := checkID("ID", id); err != nil {
		return nil, err
	}
	key, err := b.main.key(account)
	if err != nil {
		return nil, err
	}
	return &action{kind: kind, id: id, keys: []string{key}, currency: b.main.Currency}, nil
}

// upkeep carries out SetLimits, SetPlan, Freeze, Unfreeze and Mend. An account has been loaded with
// the rules of its new plan.
func (t *attempt) upkeep() error {
	a, tags := t.accounts[0], t.act.tags
	switch t.act.kind {
	case kindLimits:
		tags = make(map[string]string)
		for _, l := range t.act.limits {
			if err := cmp.Or(a.sum(&l), a.budget.allow(&l)); err != nil {
				return err
			}
			a.setLimit(&l)
			tags[l.Rule] = l.text()
		}
		a.useLimits()
		for _, u := range a.tallies {
			if u.rule.kind == leaky {
				u.leakBy(a.time)
			}
		}
	case kindFreeze:
		a.frozen = t.act.tags["reason"]
	case kindUnfreeze:
		a.frozen = ""
	case kindMend:
		if err := a.mend(t.clock); err != nil {
			return err
		}
		t.now = a.time
	}
	return a.add(ledger.Entry{Kind: t.act.kind, RequestID: t.act.id, Tags: tags})
}

// sum replaces a limit that adds something by the sum.
func (a *account) sum(l *RuleLimit) error {
	i := slices.IndexFunc(a.tallies, func(u *tally) bool { return u.name == l.Rule })
	if !l.Add || i < 0 {
		return nil // allow tells that there is no such rule
	}
	before := a.tallies[i].amounts.then
	if !l.Until.IsZero() {
		before = a.tallies[i].amounts.now
	}
	n, fits := add(before, l.Amount.Minor)
	if !fits || n < 0 {
		return fmt.Errorf("spend: %w: the limit of rule %q is %v, and %v more would be below 0, or out of range",
			ErrAmount, l.Rule, Money{before, l.Amount.Currency}, l.Amount)
	}
	l.Amount.Minor, l.Add = n, false
	return nil
}

// ownLimit is the account's own limits of one rule.
type ownLimit struct {
	rule   string
	set    bool // amount is the limit
	amount int64
	until  int64 // raised is the limit before that time; 0, which is no time, if there is none
	raised int64
}

// raises reports whether raised is the limit at a time.
func (l *ownLimit) raises(now int64) bool { return l.until != 0 && now < l.until }

// ownLimit returns the account's own limits of a rule.
func (a *account) ownLimit(rule string) ownLimit {
	if i, ok := a.findLimit(rule); ok {
		return a.own[i]
	}
	return ownLimit{rule: rule}
}

func (a *account) findLimit(rule string) (int, bool) {
	return slices.BinarySearchFunc(a.own, rule, func(l ownLimit, rule string) int { return strings.Compare(l.rule, rule) })
}

func (a *account) setLimit(l *RuleLimit) {
	own := a.ownLimit(l.Rule)
	switch {
	case l.Default:
		own = ownLimit{rule: l.Rule}
	case l.Until.IsZero():
		own.set, own.amount = true, l.Amount.Minor
	default:
		own.until, own.raised = ending(l.Until.UnixMicro()), l.Amount.Minor
	}
	i, ok := a.findLimit(l.Rule)
	if !ok {
		a.own = slices.Insert(a.own, i, own)
	}
	a.own[i] = own
	if own == (ownLimit{rule: l.Rule}) {
		a.own = slices.Delete(a.own, i, i+1)
	}
}

// amounts is the limit of a rule in an account, as it changes with time.
type amounts struct {
	now   int64
	until int64 // then takes the place of now at that time; maxTime if it never does
	then  int64
}

// amounts returns the limit of a rule at the time of the account.
func (a *account) amounts(r *Rule) amounts {
	own := a.ownLimit(r.name)
	usual := r.limit.Minor
	if own.set {
		usual = min(own.amount, r.most())
	}
	if !own.raises(a.time) {
		return amounts{now: usual, until: maxTime, then: usual}
	}
	return amounts{now: min(own.raised, r.most()), until: own.until, then: usual}
}

// useLimits gives the rules the limits that they have at the time of the account.
func (a *account) useLimits() {
	for _, u := range a.tallies {
		u.amounts = a.amounts(u.rule)
	}
}

// most returns the largest limit that an account may have for the rule.
func (r *Rule) most() int64 { return cmp.Or(r.atMost.Minor, r.limit.Minor) }
