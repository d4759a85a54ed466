package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultHoldTTL = 7 * 24 * time.Hour
	DefaultKeepIDs = 200 * 24 * time.Hour // longer than a chargeback may take
)

// Budget is a name, a currency and rules. A spend on one of its accounts needs
// the agreement of every rule.
//
// Each process passes its rules to [New], so rules can change at any time. A
// changed amount never resets the used amount. A rule that is new, or that has
// another window or filter, counts the entries that the ledger already holds; a
// [Leaky] rule starts empty instead.
//
// The currency of a budget may have a scale, as in USD:8 for prices of tokens:
// see [Money]. The budget then counts in that unit, and its rules and requests may
// give their amounts with any scale. They are converted exactly. An amount that is
// finer than the unit of the budget is [ErrAmount], and is never rounded. An account keeps the
// currency and the scale of its first decision, and answers [ErrCurrency] to another one. So give
// a budget that counts in another unit another name.
type Budget struct {
	Name     string // 1 to 64 bytes of UTF-8 without "/"; two budgets never share an account
	Currency string // ISO 4217 code of all amounts, with a scale or without; see [Money]
	Rules    []Rule // at least one; their names are unique
	// Plans are further sets of rules, by name. [Budgets.SetPlan] gives an account the rules of a
	// plan in the place of Rules. Names are 1 to 64 bytes of UTF-8. Rules of one name, in Rules and
	// in plans, all count money or all count spends, because an account's own limit holds by that
	// name.
	Plans map[string][]Rule
}

// Options adjust [New]. A nil *Options means all defaults.
type Options struct {
	// Budgets are further budgets in the same ledger, for instance those of a team and a company
	// beside the budget of a card. [Request.Also] can name their accounts, and
	// [Budgets.ForBudget] the budgets. List every budget to which earlier spends were charged:
	// otherwise a capture, void or refund of such a spend fails.
	Budgets []Budget
	// HoldTTL is the lifetime of a hold whose request sets no TTL, from a
	// microsecond to KeepIDs; 0 means [DefaultHoldTTL].
	HoldTTL time.Duration
	// KeepIDs is how long [Budgets.Prune] keeps the answer to an ID and the spend that the ID
	// began, from HoldTTL to 100 years; 0 means [DefaultKeepIDs]. A request that is sent again
	// after its ID was pruned is a new request. Give all processes the same KeepIDs:
	// [Budgets.Verify] wants all requests that are younger to be there.
	KeepIDs time.Duration
	// Hooks are called for the calls of the Budgets, in this order.
	Hooks []Hooks
}

// Budgets decides spends against a [Budget] and the further budgets of
// [Options]. Any number of goroutines may use it at once, and any number of
// processes may share its ledger.
type Budgets struct {
	decider decide.Decider
	main    *decide.Budget
	units   map[string]string // currencies of the budgets, with their scales, by ISO code
	hooks   []Hooks
}

// New returns Budgets that decide spends against main and keep them in l. New
// does not call l. o may be nil. A mistake in a budget or an option is
// [ErrBudget], and a nil ledger is [store.ErrClosed].
func New(_ context.Context, l ledger.Ledger, main Budget, o *Options) (*Budgets, error) {
	if o == nil {
		o = &Options{}
	}
	if l == nil {
		return nil, fmt.Errorf("spend: %w: the ledger is nil", store.ErrClosed)
	}
	d := decide.Decider{
		Ledger: l, Budgets: make(map[string]*decide.Budget), HoldTTL: cmp.Or(o.HoldTTL, DefaultHoldTTL), KeepIDs: cmp.Or(o.KeepIDs, DefaultKeepIDs),
		Holds: len(o.Hooks) > 0,
	}
	if d.HoldTTL < time.Microsecond || d.KeepIDs < d.HoldTTL || d.KeepIDs > maxWindow {
		return nil, fmt.Errorf("spend: %w: HoldTTL is %v and KeepIDs is %v; "+
			"both must be positive and at most 100 years, and KeepIDs at least HoldTTL", ErrBudget, d.HoldTTL, d.KeepIDs)
	}
	b := &Budgets{decider: d, units: make(map[string]string), hooks: slices.Clone(o.Hooks)}
	for _, budget := range append([]Budget{main}, o.Budgets...) {
		if err := b.add(budget); err != nil {
			return nil, err
		}
	}
	b.main = d.Budgets[main.Name]
	return b, nil
}

// add adds a budget, if it has no mistakes and fits the others.
func (b *Budgets) add(budget Budget) error {
	checked, err := budget.check()
	if err != nil {
		return err
	}
	if b.decider.Budgets[budget.Name] != nil {
		return fmt.Errorf("spend: %w: two budgets are called %q", ErrBudget, budget.Name)
	}
	b.decider.Budgets[budget.Name] = checked
	iso := money.ISO(budget.Currency)
	if unit, known := b.units[iso]; known && unit != budget.Currency {
		return fmt.Errorf("spend: %w: budgets count in %s and in %s; one request may be charged to both, "+
			"so give them one scale", ErrBudget, unit, budget.Currency)
	}
	b.units[iso] = budget.Currency
	return nil
}

// check returns the budget if it has no mistakes. Otherwise the error is a [*BudgetError].
func (b Budget) check() (*decide.Budget, error) {
	bad := func(err error, place ...any) (*decide.Budget, error) {
		return nil, budgetErr(strictjson.At(err, place...))
	}
	if !validName(b.Name) || strings.Contains(b.Name, "/") {
		return bad(errors.New("a budget's name must be 1 to 64 bytes of UTF-8 without control characters and without /"), "budget")
	}
	if _, ok := MinorUnits(b.Currency); !ok {
		return bad(notCurrency(b.Currency), "currency")
	}
	checked := &decide.Budget{Name: b.Name, Currency: b.Currency, Plans: make(map[string]*decide.Plan)}
	plan, err := b.plan(b.Rules)
	if err != nil {
		return bad(err, "rules")
	}
	checked.Plans[""] = plan
	counted := make(map[string]bool) // whether rules of that name count spends
	_ = sameUnits(plan, counted)     // no other plan has been counted
	for _, name := range slices.Sorted(maps.Keys(b.Plans)) {
		if !validName(name) {
			return bad(errors.New("the name of a plan must be 1 to 64 bytes of UTF-8 without control characters"), "plans", name)
		}
		plan, err := b.plan(b.Plans[name])
		if err == nil {
			err = sameUnits(plan, counted)
		}
		if err != nil {
			return bad(err, "plans", name)
		}
		checked.Plans[name] = plan
	}
	return checked, nil
}

// sameUnits returns an error if a rule of the plan counts spends, and one of the same name in
// another plan counts money. It adds the rules of the plan to counted, which tells whether rules of
// a name count spends.
func sameUnits(plan *decide.Plan, counted map[string]bool) error {
	for i := range plan.Rules {
		r := &plan.Rules[i]
		if spends, known := counted[r.Name]; known && spends != r.Spends() {
			return strictjson.At(fmt.Errorf("rule %q counts spends in one plan and money in another; give it another name", r.Name), i, "name")
		}
		counted[r.Name] = r.Spends()
	}
	return nil
}

// plan returns rules of the budget, if they have no mistakes.
func (b *Budget) plan(rules []Rule) (*decide.Plan, error) {
	if len(rules) == 0 {
		return nil, fmt.Errorf("budget %q has no rules here, and would allow everything; add a rule", b.Name)
	}
	plan := &decide.Plan{}
	names := make(map[string]bool)
	for i, r := range rules {
		spec, err := r.scaled(b.Currency)
		if err == nil {
			err = ruleCheck{&spec, b.Currency}.check()
		}
		if err != nil {
			return nil, strictjson.At(err, i)
		}
		if names[spec.Name] {
			return nil, strictjson.At(fmt.Errorf("two rules of budget %q are called %q; give each its own name", b.Name, spec.Name), i, "name")
		}
		names[spec.Name] = true
		plan.Rules, plan.Fingerprints = append(plan.Rules, spec), append(plan.Fingerprints, spec.Fingerprint())
	}
	return plan, nil
}

// inUnit returns the amount in the scale of the budgets in its currency. A number without a
// currency, and an amount in a currency that no budget has, stay as they are.
func (b *Budgets) inUnit(m Money) (Money, error) {
	switch unit, known := b.units[money.ISO(m.Currency)]; {
	case unit == m.Currency: // also a number, for which there is no unit
		return m, nil
	case known:
		return m.In(unit)
	}
	if _, ok := MinorUnits(m.Currency); !ok {
		return Money{}, unknownCurrency(m.Currency)
	}
	return m, nil
}

// ForBudget returns Budgets whose accounts are those of the named budget, which
// is the main budget of [New] or one of [Options.Budgets]. Use it to charge or
// to read an account of such a budget directly. The ledger is shared. An unknown
// name is [ErrRequest].
func (b *Budgets) ForBudget(name string) (*Budgets, error) {
	budget, err := b.decider.Find(name)
	if err != nil {
		return nil, err
	}
	other := *b
	other.main = budget
	return &other, nil
}

// With returns Budgets with the same rules over l. Pass the ledger of a
// transaction of your own, which the With methods of pgledger and boltledger
// return: a spend then commits or rolls back together with your rows.
func (b *Budgets) With(l ledger.Ledger) *Budgets {
	other := *b
	other.decider.Ledger = l
	return &other
}

// keyOf checks the name of an account of a budget and returns the account's key in the
// ledger. The error does not contain the name, which may be personal data.
func keyOf(b *decide.Budget, account string) (string, error) {
	key := b.Prefix() + account
	if account == "" || !validText(account) || store.ValidateKey(key) != nil {
		return "", requestErr("an account must be 1 to 512 bytes of UTF-8 without control characters, " +
			"counting the name of its budget and a slash")
	}
	return key, nil
}

// key is keyOf for an account of the main budget.
func (b *Budgets) key(account string) (string, error) { return keyOf(b.main, account) }

// accountOf returns the account that has that key.
func accountOf(key string) Account {
	budget, name, _ := strings.Cut(key, "/")
	return Account{Budget: budget, Name: name}
}

// validText reports whether every ledger can store s and a person can read s.
func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// validName reports whether s can name a budget or a rule.
func validName(s string) bool {
	return s != "" && len(s) <= 64 && validText(s)
}
