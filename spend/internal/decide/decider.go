// Package decide makes the decisions of package spend: it loads accounts from a ledger, asks the
// figures of their rules, carries out the life of a spend, and stores the outcome. The front,
// package spend, has checked the requests of callers. Times are microseconds since the Unix epoch.
package decide

import (
	"context"
	"errors"
	"slices"
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

// Decide makes the decision about act.
func (d *Decider) Decide(ctx context.Context, act *Action) (*Outcome, error) {
	keys := act.Keys
	for n := 1; ; n++ {
		job, out := d.job(act, keys)
		err := d.Ledger.Decide(ctx, job)
		if err == nil {
			return out, nil
		}
		if keys, err = relock(keys, n, err); err != nil {
			return nil, err
		}
	}
}

// DecideAll makes decisions in one transaction if the ledger can. There is an outcome or an error
// for each action.
func (d *Decider) DecideAll(ctx context.Context, acts []*Action) ([]*Outcome, []error) {
	jobs, outs := make([]*ledger.Job, len(acts)), make([]*Outcome, len(acts))
	for i, act := range acts {
		jobs[i], outs[i] = d.job(act, act.Keys)
	}
	errs := d.Ledger.DecideAll(ctx, jobs)
	for i, err := range errs {
		if errors.As(err, new(*unlocked)) {
			outs[i], errs[i] = d.Decide(ctx, acts[i])
		}
	}
	return outs, errs
}

// job returns the job that decides act about the accounts with these keys, and the place of the
// outcome, which is valid once the ledger has stored the changes. The place is a variable of the
// job's own, because the job may still run after the caller's context has ended and the caller has
// left.
func (d *Decider) job(act *Action, keys []string) (*ledger.Job, *Outcome) {
	out, locks := new(Outcome), keys
	if act.To != "" {
		locks = append(slices.Clone(keys), act.To)
	}
	return &ledger.Job{
		Accounts: locks, Requests: []string{act.ID}, SpendID: act.SpendID,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			t := &attempt{group: group{decider: d, snap: snap}, act: act, named: keys}
			return t.run(out)
		},
	}, out
}
