// Package decide makes the decisions of package spend: it loads accounts from a ledger, asks the
// figures of their rules, carries out the life of a spend, and stores the outcome. The front,
// package spend, has checked the requests of callers. Times are microseconds since the Unix epoch.
package decide

import (
	"context"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Decider decides on the accounts of budgets in a ledger.
type Decider struct {
	Ledger  ledger.Ledger
	Rules   *Rulebook
	HoldTTL time.Duration
	KeepIDs time.Duration
	Holds   bool // outcomes tell of holds
	Joined  bool // the ledger is a transaction of the caller's
	counts  *counts
}

// New returns a decider with no rules.
func New(d Decider) Decider {
	d.counts = new(counts)
	return d
}

// With returns the decider over the ledger of a transaction of the caller's.
func (d Decider) With(l ledger.Ledger) Decider {
	d.Ledger, d.Joined, d.counts = l, true, new(counts)
	return d
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
	job, out := d.job(act, act.Keys)
	return act.until(ctx, d, out, d.Ledger.Decide(ctx, job))
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
		outs[i], errs[i] = acts[i].until(ctx, d, outs[i], err)
	}
	return outs, errs
}

// until tries a decision again after its first error, until no error tells how it may succeed.
func (act *Action) until(ctx context.Context, d *Decider, out *Outcome, err error) (*Outcome, error) {
	keys := act.Keys
	for n := 1; err != nil; n++ {
		if keys, err = d.again(ctx, keys, n, err); err != nil {
			return nil, err
		}
		var job *ledger.Job
		job, out = d.job(act, keys)
		err = d.Ledger.Decide(ctx, job)
	}
	return out, nil
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
	k := d.Rules.known()
	rules := k.of(keys...)
	if act.SpendID != "" {
		rules = k.list // its accounts are not known yet
	}
	return &ledger.Job{
		Accounts: locks, Requests: []string{act.ID}, SpendID: act.SpendID, Rules: rules,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			t := &attempt{group: group{decider: d, snap: snap, known: k}, act: act, named: keys}
			return t.run(out)
		},
	}, out
}
