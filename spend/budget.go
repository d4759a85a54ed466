package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	defaultHoldTTL = 7 * 24 * time.Hour
	defaultKeepIDs = 200 * 24 * time.Hour
)

// Budget is a name, a currency and rules. A spend on one of its accounts needs
// the agreement of every rule.
//
// The ledger keeps the rules, in revisions. [New] and [Budgets.SetRules] store a
// revision, and every process decides by the newest one. A changed amount never
// resets the used amount. A rule that is new, or that has another window or filter,
// counts the entries that the ledger already holds; a [Leaky] rule starts empty
// instead. The figures of a rule that no plan has any more go at the next decision
// on an account.
//
// The ledger keeps the form that MarshalJSON writes, so a budget that has no such
// form is [ErrBudget].
//
// The currency of a budget may have a scale, as in USD:8 for prices of tokens: see [Money]. The
// budget then counts in that unit, and its rules and requests may give their amounts with any
// scale. They are converted exactly. An amount that is finer than the unit of the budget is
// [ErrAmount], and is never rounded. A budget keeps its currency and its scale: New and SetRules
// answer [ErrCurrency] to another one. So give a budget that counts in another unit another name.
type Budget struct {
	Name     string // 1 to 64 bytes of UTF-8 without "/"; two budgets never share an account
	Currency string // ISO 4217 code of all amounts, with a scale or without; see [Money]
	Rules    []Rule // at least one; their names are unique
	// Plans are further sets of rules, by name. [Budgets.SetPlan] gives an account the rules of a
	// plan in the place of Rules. Names are 1 to 64 bytes of UTF-8. Rules of one name, in Rules and
	// in plans, all count money or all count spends, because an account's own limit holds by that
	// name.
	Plans map[string][]Rule
	// Revision is the number of these rules, from 0 to 2^53. Raise it with each change of a
	// budget. It may skip numbers.
	Revision int64
	// Retired are the names of [Lifetime] and [Leaky] rules that the revision before has, and that
	// this one lacks or has with another filter. Their used amounts go, which makes room. Take the
	// names out again with the next revision: one that stays also retires a rule that returns.
	Retired []string
}

// Options adjust [New] and [Open]. A nil *Options means all defaults.
type Options struct {
	// Budgets are further budgets to store in the same ledger, for instance those of a team and a
	// company beside the budget of a card. [Request.Also] can name the accounts of every budget
	// that the ledger has, and [Budgets.ForBudget] the budgets.
	Budgets []Budget
	// HoldTTL is the lifetime of a hold whose request sets no TTL, from a
	// microsecond to KeepIDs; 0 means seven days, or KeepIDs if that is shorter.
	HoldTTL time.Duration
	// KeepIDs is how long [Budgets.Prune] keeps the answer to an ID and the spend that the ID
	// began, from HoldTTL to 100 years; 0 means 200 days, longer than a chargeback may
	// take. A request that is sent again after its ID was pruned is a new request. Give all
	// processes the same KeepIDs: [Budgets.Verify] wants all requests that are younger to be there.
	KeepIDs time.Duration
	// Hooks are called for the calls of the Budgets, in this order.
	Hooks []Hooks
	// Logger hears of rules with which New began and by which it does not decide; nil is silent.
	Logger *slog.Logger
}

// Budgets decides spends against a [Budget] and the further budgets of its ledger. Any number of
// goroutines may use it at once, and any number of processes may share its ledger.
type Budgets struct {
	decider decide.Decider
	main    *decide.Budget // as it was when the program began; name and currency never change
	hooks   []Hooks
}

// New returns Budgets that decide spends against main and keep them in l. It stores the rules of
// main, and of [Options.Budgets], if their revision is higher than that in l. If it is lower, the
// newer rules of l hold, and also those that [Budgets.SetRules] holds: the Logger hears of that.
// The same revision with other rules is [ErrBudget]; see SetRules for more of its errors. Rules
// that are stored already need no right to write.
//
// While l is out of reach, New returns its error, [store.ErrUnavailable]: call it again. Call New
// outside of transactions of your own: a new revision that is not committed holds up every other
// New that stores one.
//
// o may be nil. A mistake in a budget or an option is [ErrBudget], and a nil ledger is
// [store.ErrClosed].
func New(ctx context.Context, l ledger.Ledger, main Budget, o *Options) (*Budgets, error) {
	o = cmp.Or(o, new(Options))
	b, err := begin(l, o)
	if err != nil {
		return nil, err
	}
	var all []*decide.Budget
	for _, budget := range append([]Budget{main}, o.Budgets...) {
		checked, err := budget.declared()
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			switch {
			case other.Name == checked.Name:
				return nil, fmt.Errorf("spend: %w: two budgets are called %q", ErrBudget, checked.Name)
			case other.Currency != checked.Currency && money.ISO(other.Currency) == money.ISO(checked.Currency):
				return nil, fmt.Errorf("spend: %w: budgets count in %s and in %s; one request may be charged to both, "+
					"so give them one scale", ErrBudget, other.Currency, checked.Currency)
			}
		}
		all = append(all, checked)
	}
	b.main = all[0]
	for _, budget := range all {
		if err := b.start(ctx, budget, o.Logger); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// start declares the rules of a budget with which a program starts.
func (b *Budgets) start(ctx context.Context, budget *decide.Budget, log *slog.Logger) error {
	differs, err := b.decider.Declare(ctx, &decide.Declaration{Budget: budget, By: "New", Starts: true})
	if err == nil && differs != "" && log != nil {
		log.WarnContext(ctx, "the ledger has other rules than the program, and they hold",
			"budget", budget.Name, "revision", budget.Revision, "difference", differs)
	}
	return err
}

// Open returns Budgets that decide spends against the budget of that name, by the rules that l has.
// Commands use it, and programs whose rules come from elsewhere. An unknown name is [ErrRequest].
// Options.Budgets must be empty. Other errors are those of [New].
func Open(ctx context.Context, l ledger.Ledger, name string, o *Options) (*Budgets, error) {
	o = cmp.Or(o, new(Options))
	if len(o.Budgets) > 0 {
		return nil, fmt.Errorf("spend: %w: Open takes the rules of the ledger, and Options.Budgets has others", ErrBudget)
	}
	b, err := begin(l, o)
	if err == nil {
		b.main, err = b.decider.Find(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// begin returns Budgets without a budget.
func begin(l ledger.Ledger, o *Options) (*Budgets, error) {
	if l == nil {
		return nil, fmt.Errorf("spend: %w: the ledger is nil", store.ErrClosed)
	}
	keepIDs := cmp.Or(o.KeepIDs, defaultKeepIDs)
	d := decide.New(decide.Decider{
		Ledger: l, Rules: &decide.Rulebook{Parse: parsed, Difference: difference},
		HoldTTL: cmp.Or(o.HoldTTL, min(defaultHoldTTL, keepIDs)), KeepIDs: keepIDs, Holds: len(o.Hooks) > 0,
	})
	if d.HoldTTL < time.Microsecond || d.KeepIDs < d.HoldTTL || d.KeepIDs > maxWindow {
		return nil, fmt.Errorf("spend: %w: HoldTTL is %v and KeepIDs is %v; "+
			"both must be positive and at most 100 years, and KeepIDs at least HoldTTL", ErrBudget, d.HoldTTL, d.KeepIDs)
	}
	return &Budgets{decider: d, hooks: slices.Clone(o.Hooks)}, nil
}

// check returns the budget if it has no mistakes. Otherwise the error is a [*BudgetError].
func (b Budget) check() (*decide.Budget, error) {
	bad := func(err error, place ...any) (*decide.Budget, error) {
		return nil, budgetErr(strictjson.At(err, place...))
	}
	if !validName(b.Name) || strings.Contains(b.Name, "/") {
		return bad(errors.New("a budget's name must be 1 to 64 bytes of UTF-8 without control characters and without /"), "budget")
	}
	if _, ok := money.Places(b.Currency); !ok {
		return bad(notCurrency(b.Currency), "currency")
	}
	if err := b.checkRevision(); err != nil {
		return bad(err)
	}
	checked := &decide.Budget{
		Name: b.Name, Currency: b.Currency, Revision: b.Revision, Plans: make(map[string]*decide.Plan), Retired: slices.Clone(b.Retired),
	}
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

// checkRevision returns a mistake in the number of the revision, or in the names that it retires.
func (b *Budget) checkRevision() error {
	if b.Revision < 0 || b.Revision > store.MaxAmount {
		return strictjson.At(fmt.Errorf("revision %d must be from 0 to 2^53", b.Revision), "revision")
	}
	for i, name := range b.Retired {
		if !validName(name) {
			return strictjson.At(errors.New("the name of a rule must be 1 to 64 bytes of UTF-8 without control characters"), "retired", i)
		}
	}
	return nil
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
	switch unit := b.decider.Rules.Unit(b.main, m.Currency); {
	case unit == m.Currency: // also a number, for which there is no unit
		return m, nil
	case unit != "":
		return m.In(unit)
	}
	if _, ok := money.Places(m.Currency); !ok {
		return Money{}, unknownCurrency(m.Currency)
	}
	return m, nil
}

// ForBudget returns Budgets whose accounts are those of the named budget, which
// is one of those in the ledger. Use it to charge or to read an account of such a
// budget directly. The ledger is shared. An unknown name is [ErrRequest].
func (b *Budgets) ForBudget(ctx context.Context, name string) (_ *Budgets, err error) {
	c := b.begin(ctx, "for_budget")
	defer c.end(&err)
	budget, err := b.decider.Find(c.ctx, name)
	if err != nil {
		return nil, err
	}
	other := *b
	other.main = budget
	return &other, nil
}

// With returns Budgets with the same rules over l. Pass the ledger of a
// transaction of your own, which the With methods of pgledger, sqliteledger and boltledger
// return: a spend then commits or rolls back together with your rows.
func (b *Budgets) With(l ledger.Ledger) *Budgets {
	other := *b
	other.decider = b.decider.With(l)
	return &other
}

// Name returns the name of the main budget.
func (b *Budgets) Name() string { return b.main.Name }

// Currency returns the currency of the main budget, with its scale.
func (b *Budgets) Currency() string { return b.main.Currency }

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
