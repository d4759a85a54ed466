// Package decide makes the decisions of package spend: it loads accounts from a ledger, asks the
// figures of their rules, carries out the life of a spend, and stores the outcome. The front, package
// spend, has checked what comes from a caller. Times are microseconds since the Unix epoch.
package decide

import (
	"strings"
	"time"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Decider decides on the accounts of its budgets in a ledger.
type Decider struct {
	Ledger  ledger.Ledger
	Budgets map[string]*Budget // by name
	HoldTTL time.Duration
	KeepIDs time.Duration
	Holds   bool // outcomes tell of holds
}

// Budget is a budget without mistakes.
type Budget struct {
	Name     string
	Currency string
	Plans    map[string]*Plan // "" has the rules of an account without a plan
}

// Plan is a set of rules.
type Plan struct {
	Rules        []figures.Rule
	Fingerprints []uint64
}

// Prefix begins the keys of all accounts of the budget.
func (b *Budget) Prefix() string { return b.Name + "/" }

// Leaky reports whether a rule of the budget is Leaky.
func (b *Budget) Leaky() bool {
	for r := range b.rules {
		if r.Span() == figures.Leaks {
			return true
		}
	}
	return false
}

// rules yields the rules of all plans.
func (b *Budget) rules(yield func(*figures.Rule) bool) {
	for _, plan := range b.Plans {
		for i := range plan.Rules {
			if !yield(&plan.Rules[i]) {
				return
			}
		}
	}
}

// HasRule reports whether a rule of the budget has that name.
func (b *Budget) HasRule(name string) bool {
	for r := range b.rules {
		if r.Name == name {
			return true
		}
	}
	return false
}

// Find returns the budget of that name.
func (d *Decider) Find(name string) (*Budget, error) {
	if b := d.Budgets[name]; b != nil {
		return b, nil
	}
	return nil, BadRequest("no budget is called %.64q; pass it to New in Options.Budgets", name)
}

// find returns the budget of an account.
func (d *Decider) find(key string) (*Budget, error) {
	name, _, _ := strings.Cut(key, "/")
	return d.Find(name)
}

// Outcome is a decision, and more that hooks hear of it.
type Outcome struct {
	Answer
	Holds []Hold
	Ahead time.Duration // of an account before the ledger's clock
}

// Hold is money of an account that a decision has held, or that an expired hold has given back or
// spent.
type Hold struct {
	Account string // its key
	Amount  money.Money
	Expired bool
}

// Job returns the job that decides act, and the place of the outcome, which is valid once the ledger
// has stored the changes. The place is a variable of the job's own, because the job may still run
// after the caller's context has ended and the caller has left.
func (d *Decider) Job(act *Action) (*ledger.Job, *Outcome) {
	out := new(Outcome)
	return &ledger.Job{
		Accounts: act.Keys, Requests: []string{act.ID}, SpendID: act.SpendID,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			t := &attempt{group: group{decider: d, snap: snap}, act: act}
			return t.run(out)
		},
	}, out
}
