package spend

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/brimgo/brim/internal/strictjson"
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
	// Plans are further sets of rules, by name. [Budgets.SetPlan] gives an account the rules of a plan
	// in the place of Rules. Names are 1 to 64 bytes of UTF-8. Rules of one name, in Rules and in
	// plans, all count money or all count spends, because an account's own limit holds by that name.
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
	// KeepIDs is how long [Budgets.Prune] keeps the answer to an ID and the spend
	// that the ID began, from HoldTTL to 100 years; 0 means [DefaultKeepIDs]. A
	// request that is sent again after its ID was pruned is a new request.
	KeepIDs time.Duration
	// Hooks are called for the calls of the Budgets, in this order.
	Hooks []Hooks
}

// Budgets decides spends against a [Budget] and the further budgets of
// [Options]. Any number of goroutines may use it at once, and any number of
// processes may share its ledger.
type Budgets struct {
	ledger  ledger.Ledger
	main    *checkedBudget
	all     map[string]*checkedBudget // by name
	units   map[string]string         // currencies of the budgets, with their scales, by ISO code
	holdTTL time.Duration
	keepIDs time.Duration
	hooks   []Hooks
}

// checkedBudget is a Budget without mistakes.
type checkedBudget struct {
	Budget
	fingerprints []uint64                  // of Rules
	plans        map[string]*checkedBudget // the same budget with the rules of a plan; Rules have the plan ""
	leaky        bool                      // a rule is Leaky, here or in a plan
}

// New returns Budgets that decide spends against main and keep them in l. New
// does not call l. o may be nil. A mistake in a budget or an option is
// [ErrBudget], and a nil ledger is [store.ErrClosed].
func New(l ledger.Ledger, main Budget, o *Options) (*Budgets, error) {
	if o == nil {
		o = &Options{}
	}
	if l == nil {
		return nil, fmt.Errorf("spend: %w: the ledger is nil", store.ErrClosed)
	}
	b := &Budgets{ledger: l, all: make(map[string]*checkedBudget), units: make(map[string]string), holdTTL: o.HoldTTL, keepIDs: o.KeepIDs, hooks: slices.Clone(o.Hooks)}
	if b.holdTTL == 0 {
		b.holdTTL = DefaultHoldTTL
	}
	if b.keepIDs == 0 {
		b.keepIDs = DefaultKeepIDs
	}
	if b.holdTTL < time.Microsecond || b.keepIDs < b.holdTTL || b.keepIDs > maxWindow {
		return nil, fmt.Errorf("spend: %w: HoldTTL is %v and KeepIDs is %v; "+
			"both must be positive and at most 100 years, and KeepIDs at least HoldTTL", ErrBudget, b.holdTTL, b.keepIDs)
	}
	for _, budget := range append([]Budget{main}, o.Budgets...) {
		checked, err := budget.check()
		if err != nil {
			return nil, err
		}
		if b.all[budget.Name] != nil {
			return nil, fmt.Errorf("spend: %w: two budgets are called %q", ErrBudget, budget.Name)
		}
		b.all[budget.Name] = checked
		iso := isoCode(budget.Currency)
		if unit, known := b.units[iso]; known && unit != budget.Currency {
			return nil, fmt.Errorf("spend: %w: budgets count in %s and in %s; one request may be charged to both, "+
				"so give them one scale", ErrBudget, unit, budget.Currency)
		}
		b.units[iso] = budget.Currency
	}
	b.main = b.all[main.Name]
	return b, nil
}

// check returns the budget if it has no mistakes. Otherwise the error is a [*BudgetError].
func (b Budget) check() (*checkedBudget, error) {
	bad := func(err error, place ...any) (*checkedBudget, error) {
		return nil, budgetErr(strictjson.At(err, place...))
	}
	if !validName(b.Name) || strings.Contains(b.Name, "/") {
		return bad(errors.New("a budget's name must be 1 to 64 bytes of UTF-8 without control characters and without /"), "budget")
	}
	if _, ok := MinorUnits(b.Currency); !ok {
		return bad(notCurrency(b.Currency), "currency")
	}
	checked, err := b.checkRules(b.Rules)
	if err != nil {
		return bad(err, "rules")
	}
	checked.plans = map[string]*checkedBudget{"": checked}
	counted := make(map[string]bool) // whether rules of that name count spends
	for _, r := range checked.Rules {
		counted[r.name] = r.spends()
	}
	for _, name := range slices.Sorted(maps.Keys(b.Plans)) {
		if !validName(name) {
			return bad(errors.New("the name of a plan must be 1 to 64 bytes of UTF-8 without control characters"), "plans", name)
		}
		plan, err := b.checkRules(b.Plans[name])
		if err != nil {
			return bad(err, "plans", name)
		}
		for i, r := range plan.Rules {
			if spends, known := counted[r.name]; known && spends != r.spends() {
				return bad(fmt.Errorf("rule %q counts spends in one plan and money in another; give it another name", r.name), "plans", name, i, "name")
			}
			counted[r.name] = r.spends()
		}
		checked.plans[name], checked.leaky = plan, checked.leaky || plan.leaky
	}
	return checked, nil
}

// checkRules returns the budget with the rules of a plan.
func (b Budget) checkRules(rules []Rule) (*checkedBudget, error) {
	if len(rules) == 0 {
		return nil, fmt.Errorf("budget %q has no rules here, and would allow everything; add a rule", b.Name)
	}
	b.Rules, b.Plans = slices.Clone(rules), nil // the caller may change its own
	checked := &checkedBudget{Budget: b}
	names := make(map[string]bool)
	for i := range checked.Rules {
		r := &checked.Rules[i]
		if err := cmp.Or(r.scale(b.Currency), r.validate(b.Currency)); err != nil {
			return nil, strictjson.At(err, i)
		}
		if names[r.name] {
			return nil, strictjson.At(fmt.Errorf("two rules of budget %q are called %q; give each its own name", b.Name, r.name), i, "name")
		}
		names[r.name] = true
		checked.fingerprints = append(checked.fingerprints, r.fingerprint())
		checked.leaky = checked.leaky || r.kind == leaky
	}
	return checked, nil
}

// inUnit returns the amount in the scale of the budgets in its currency. A number without a
// currency, and an amount in a currency that no budget has, stay as they are.
func (b *Budgets) inUnit(m Money) (Money, error) {
	switch unit, known := b.units[isoCode(m.Currency)]; {
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
	budget, err := b.find(name)
	if err != nil {
		return nil, err
	}
	other := *b
	other.main = budget
	return &other, nil
}

// find returns the budget of that name.
func (b *Budgets) find(name string) (*checkedBudget, error) {
	budget := b.all[name]
	if budget == nil {
		return nil, requestErr("no budget is called %.64q; pass it to New in Options.Budgets", name)
	}
	return budget, nil
}

// With returns Budgets with the same rules over l. Pass the ledger of a
// transaction of your own, which the With methods of pgledger and boltledger
// return: a spend then commits or rolls back together with your rows.
func (b *Budgets) With(l ledger.Ledger) *Budgets {
	other := *b
	other.ledger = l
	return &other
}

// key checks the name of an account and returns the account's key in the
// ledger. The error does not contain the name, which may be personal data.
func (b *checkedBudget) key(account string) (string, error) {
	key := b.prefix() + account
	if account == "" || !validText(account) || store.ValidateKey(key) != nil {
		return "", requestErr("an account must be 1 to 512 bytes of UTF-8 without control characters, " +
			"counting the name of its budget and a slash")
	}
	return key, nil
}

// allRules returns the rules of all plans.
func (b *checkedBudget) allRules() (list []*Rule) {
	for _, plan := range b.plans {
		for i := range plan.Rules {
			list = append(list, &plan.Rules[i])
		}
	}
	return list
}

// prefix begins the keys of all accounts of the budget.
func (b *checkedBudget) prefix() string { return b.Name + "/" }

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
