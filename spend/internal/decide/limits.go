package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Limit is an account's own limit for one rule, as a request gives it.
type Limit struct {
	Rule    string
	Amount  money.Money
	Until   time.Time    // zero for no end
	Default bool         // the own limits of the rule go
	Add     bool         // Amount is added to the limit that the account has
	If      *money.Money // the limit that the account must have; nil for any
}

// Text describes the limit in an entry, and in the digest of the request.
func (l *Limit) Text() string {
	s := "default"
	if !l.Default {
		s = l.Amount.String() // of a number of spends, the number alone
	}
	if l.Add {
		s = "add " + s
	}
	if !l.Until.IsZero() {
		s += " until " + l.Until.UTC().Format(time.RFC3339Nano)
	}
	if l.If != nil {
		s += " if " + l.If.String()
	}
	return s
}

// allow returns an error if the account's plan does not allow the limit, or if the account has
// another limit than the request demands. A limit that adds something becomes the sum. Rules may
// have changed since the request was sent for the first time, so only its first decision asks.
func (a *account) allow(l *Limit) error {
	i := slices.IndexFunc(a.tallies, func(u *figures.Tally) bool { return u.Name == l.Rule })
	if i < 0 {
		return fmt.Errorf("spend: %w: budget %q has no rule %q", ErrBudget, a.budget.Name, l.Rule)
	}
	u := a.tallies[i]
	before := u.Amounts.Then
	if !l.Until.IsZero() {
		before = u.Amounts.Now
	}
	if err := l.demand(u.Rule, before); err != nil {
		return err
	}
	if l.Add {
		n, fits := money.Add(before, l.Amount.Minor)
		if !fits || n < 0 {
			return fmt.Errorf("spend: %w: the limit of rule %q is %v, and %v more would be below 0, or out of range",
				money.ErrAmount, l.Rule, money.Money{Minor: before, Currency: l.Amount.Currency}, l.Amount)
		}
		l.Amount.Minor, l.Add = n, false
	}
	switch r := u.Rule; {
	case l.Default:
	case l.Amount.Currency != r.Limit.Currency:
		return fmt.Errorf("spend: %w: the limit is in %.8q and rule %q in %q", money.ErrCurrency, l.Amount.Currency, l.Rule, r.Limit.Currency)
	case l.Amount.Minor > r.Most():
		return fmt.Errorf("spend: %w: the limit is %v; rule %q allows an account at most %v (see Rule.AtMost)",
			ErrBudget, l.Amount, l.Rule, money.Money{Minor: r.Most(), Currency: r.Limit.Currency})
	}
	return nil
}

// demand returns an error if the request demands another limit than the account has. The entry of
// the request does not tell of the demand.
func (l *Limit) demand(r *figures.Rule, has int64) error {
	must := l.If
	l.If = nil
	switch is := (money.Money{Minor: has, Currency: r.Limit.Currency}); {
	case must == nil || *must == is:
		return nil
	case must.Currency != is.Currency:
		return fmt.Errorf("spend: %w: the limit must be in %.8q and rule %q is in %q", money.ErrCurrency, must.Currency, r.Name, is.Currency)
	default:
		return BadRequest("the limit of rule %q is %v, and must be %v; somebody has changed it", r.Name, is, *must)
	}
}

// ownLimit is the account's own limits of one rule.
type ownLimit struct {
	rule   string
	spends bool // the amounts are numbers of spends
	set    bool // amount is the limit
	amount int64
	until  int64 // raised is the limit before that time; 0, which is no time, if there is none
	raised int64
}

// raises reports whether raised is the limit at a time.
func (l *ownLimit) raises(now int64) bool { return l.until != 0 && now < l.until }

// ownLimits are an account's own limits, sorted by rule.
type ownLimits []ownLimit

func (own ownLimits) find(rule string) (int, bool) {
	return slices.BinarySearchFunc(own, rule, func(l ownLimit, rule string) int { return strings.Compare(l.rule, rule) })
}

// get returns the account's own limits of a rule.
func (own ownLimits) get(rule string) ownLimit {
	if i, ok := own.find(rule); ok {
		return own[i]
	}
	return ownLimit{rule: rule}
}

// fitting returns the account's own limits of a rule, if they are in the unit of the rule: one of
// another unit may have had the name.
func (own ownLimits) fitting(r *figures.Rule) ownLimit {
	if l := own.get(r.Name); l.spends == r.Spends() {
		return l
	}
	return ownLimit{rule: r.Name, spends: r.Spends()}
}

// of returns the limit of a rule at a time.
func (own ownLimits) of(r *figures.Rule, now int64) figures.Amounts {
	l := own.fitting(r)
	usual := r.Limit.Minor
	if l.set {
		usual = min(l.amount, r.Most())
	}
	if !l.raises(now) {
		return figures.Amounts{Now: usual, Until: maxTime, Then: usual}
	}
	return figures.Amounts{Now: min(l.raised, r.Most()), Until: l.until, Then: usual}
}

// set changes the limits of a rule at a time. A limit that has ended by then takes the place of
// none.
func (own *ownLimits) set(l *Limit, now int64) {
	if !l.Until.IsZero() && ending(l.Until.UnixMicro()) <= now {
		return
	}
	one := own.get(l.Rule)
	if spends := l.Amount.Currency == ""; !l.Default && spends != one.spends {
		one = ownLimit{rule: l.Rule, spends: spends}
	}
	switch {
	case l.Default:
		one = ownLimit{rule: l.Rule}
	case l.Until.IsZero():
		one.set, one.amount = true, l.Amount.Minor
	default:
		one.until, one.raised = ending(l.Until.UnixMicro()), l.Amount.Minor
	}
	i, ok := own.find(l.Rule)
	if !ok {
		*own = slices.Insert(*own, i, one)
	}
	(*own)[i] = one
	if !one.set && one.until == 0 {
		*own = slices.Delete(*own, i, i+1)
	}
}

// list returns the limits of rules that are in force at a time or will be: of each rule, the one
// with an end comes first.
func (own ownLimits) list(tallies []*figures.Tally, now int64) (list []Limit) {
	for _, u := range tallies {
		l, currency := own.fitting(u.Rule), u.Rule.Limit.Currency
		if l.raises(now) {
			list = append(list, Limit{Rule: l.rule, Amount: money.Money{Minor: l.raised, Currency: currency}, Until: utc(l.until)})
		}
		if l.set {
			list = append(list, Limit{Rule: l.rule, Amount: money.Money{Minor: l.amount, Currency: currency}})
		}
	}
	return list
}

// upkeep carries out SetLimits, SetPlan, Freeze, Unfreeze, Mend and MoveAccount. An account has
// been loaded with the rules of its new plan.
func (t *attempt) upkeep() error {
	a, tags := t.accounts[0], t.act.Tags
	switch t.act.Kind {
	case figures.KindLimits:
		tags = make(map[string]string)
		for _, l := range t.act.Limits {
			if err := a.allow(&l); err != nil {
				return err
			}
			a.own.set(&l, a.time)
			tags[l.Rule] = l.Text()
		}
		a.useLimits()
		a.leak()
	case figures.KindFreeze:
		a.frozen = t.act.Tags["reason"]
	case figures.KindUnfreeze:
		a.frozen = ""
	case figures.KindMend:
		if err := a.mend(t.clock); err != nil {
			return err
		}
		t.now = a.time
	case figures.KindMove:
		if err := t.movable(t.act.To); err != nil {
			return err
		}
	}
	return a.add(ledger.Entry{Kind: t.act.Kind, RequestID: t.act.ID, Tags: tags})
}
