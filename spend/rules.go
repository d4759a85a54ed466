package spend

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
)

// SetRulesOptions adjust [Budgets.SetRules]. A nil *SetRulesOptions means all defaults.
type SetRulesOptions struct {
	By     string // who sets the rules; up to 256 bytes of UTF-8 without control characters
	Reason string // why; likewise
	// Hold lets the rules hold also when a program starts with others: [New] then stores none, and
	// decides by these, until a SetRules with Release. So a budget belongs either to the code or to
	// whoever holds its rules.
	Hold    bool
	Release bool
	// WarmUp lets SetRules go through all accounts first, and count the entries of the 8,192 with
	// the most for rules that are new to them. Without it, the first decision on such an account
	// waits for that.
	WarmUp bool
}

// SetRules stores the rules of the main budget as its newest revision. Each decision that begins
// afterwards goes by them, in every process, and no account goes back to older ones. The same
// revision with the same rules changes nothing.
//
// These are [ErrBudget]: a mistake; a revision that is lower, or that the ledger has with other
// rules; a rule that counts spends and had counted money under its name, or the other way round; a
// [Lifetime] or [Leaky] rule that is gone, or has another filter, and is not among Budget.Retired;
// and a plan that is gone and that accounts have. If an account gets that plan at the same moment,
// its decisions fail until a revision has the plan, or the account another one. Another currency is
// [ErrCurrency], and another budget than the main one is [ErrRequest].
func (b *Budgets) SetRules(ctx context.Context, budget Budget, o *SetRulesOptions) (err error) {
	c := b.begin(ctx, "set_rules")
	defer c.end(&err)
	if o == nil {
		o = &SetRulesOptions{}
	}
	for _, s := range [...]string{o.By, o.Reason} {
		if err := checkReason(s); err != nil {
			return err
		}
	}
	if budget.Name != b.main.Name {
		return requestErr("the rules are of budget %.64q and not of %q", budget.Name, b.main.Name)
	}
	declared, err := budget.declared()
	if err != nil {
		return err
	}
	_, err = b.decider.Declare(c.ctx, &decide.Declaration{Budget: declared, By: o.By, Reason: o.Reason, Hold: o.Hold, Release: o.Release, WarmUp: o.WarmUp})
	return err
}

// Revision is one revision of the rules of a budget. The ledger never changes it.
type Revision struct {
	Rules  Budget
	At     time.Time // when it was stored, by the ledger's clock
	By     string    // who has set it: "New" is a program that has started
	Reason string
	Held   bool // see [SetRulesOptions.Hold]
}

// Rules iterates over the revisions of the main budget, newest first. The first one is in force.
// Each is proved: one that is not as it was stored, or that is missing, is [store.ErrCorrupt]. An
// error ends the iteration. Rules that this version of the library cannot read are
// [store.ErrMisconfigured].
func (b *Budgets) Rules(ctx context.Context) iter.Seq2[Revision, error] {
	return iterate(ctx, b, "rules", func(ctx context.Context) iter.Seq2[Revision, error] {
		return func(yield func(Revision, error) bool) {
			for r, err := range b.decider.Revisions(ctx, b.main.Name) {
				var out Revision
				if err == nil {
					out = Revision{At: time.UnixMicro(r.At).UTC(), By: r.By, Reason: r.Reason, Held: r.Held}
					if wrong := out.Rules.UnmarshalJSON(r.Text); wrong != nil {
						err = decide.Unreadable(&r, wrong)
					}
				}
				if !yield(out, err) || err != nil {
					return
				}
			}
		}
	})
}

// declared is check of a budget that is to be stored.
func (b Budget) declared() (*decide.Budget, error) {
	checked, err := b.check()
	if err == nil {
		checked.Text, err = b.MarshalJSON()
	}
	return checked, err
}

// parsed is declared of a text in the ledger.
func parsed(text []byte) (*decide.Budget, error) {
	var b Budget
	if err := b.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return b.declared()
}

// difference tells in few words how a budget differs from an older one. Both are as MarshalJSON has
// written them.
func difference(older, newer []byte) string {
	var old, now budgetJSON
	if json.Unmarshal(older, &old) != nil || json.Unmarshal(newer, &now) != nil {
		return "one of them cannot be read"
	}
	was, is := old.plans(), now.plans()
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, plan := range slices.Sorted(maps.Keys(both)) {
		for _, r := range both[plan] {
			x, y := ruleOf(was[plan], r.Name), ruleOf(is[plan], r.Name)
			of := ""
			if plan != "" {
				of = fmt.Sprintf(" of plan %q", plan)
			}
			switch {
			case x == nil:
				return fmt.Sprintf("rule %q%s is not in the ledger", r.Name, of)
			case y == nil:
				return fmt.Sprintf("rule %q%s is in the ledger alone", r.Name, of)
			case !reflect.DeepEqual(x, y):
				return fmt.Sprintf("rule %q%s differs", r.Name, of)
			}
		}
	}
	return "the revision, the retired rules, or the order of the rules differs"
}

// plans returns the rules of all plans.
func (b *budgetJSON) plans() map[string][]ruleJSON {
	all := map[string][]ruleJSON{"": b.Rules}
	maps.Copy(all, b.Plans)
	return all
}

func ruleOf(rules []ruleJSON, name text) *ruleJSON {
	if i := slices.IndexFunc(rules, func(r ruleJSON) bool { return r.Name == name }); i >= 0 {
		return &rules[i]
	}
	return nil
}
