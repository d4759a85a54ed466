package decide

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// Explanation is that which rules counted when they decided about a request; see spend.Explanation.
type Explanation struct {
	Answer
	Revision int64 // in force then
	Rules    []ExplainedRule
}

// ExplainedRule is a rule at a decision.
type ExplainedRule struct {
	Account    int // index
	Rule       figures.Rule
	Value      string
	Limit      int64 // of the account; that of the rule if the answer does not tell it
	Used, Held int64 // before the decision
	Refused    bool  // also in the shadow
	Parts      []ExplainedPart
	Omitted    int    // older parts
	Incomplete string // why entries may be missing
}

// ExplainedPart is a spend or a credit that a rule counted.
type ExplainedPart struct {
	ID         string // of the request that began it
	Dated      int64
	Used, Held int64
}

// mostParts is the number of parts of a rule that an explanation tells.
const mostParts = 1000

// Explain explains the decision about a request from the entries that there were then.
func (x *Explanation) Explain(ctx context.Context, d *Decider, id string) error {
	r := new(ledger.Request)
	job := &ledger.Job{Requests: []string{id}, SpendID: id, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		found, err := snap.Request(id)
		if err == nil && found == nil {
			err = fmt.Errorf("spend: %w: its ID is unknown, or is older than KeepIDs", ErrUnknownSpend)
		}
		if err == nil {
			*r = *found
		}
		return nil, err
	}}
	if err := d.Ledger.View(ctx, job); err != nil {
		return err
	}
	answer, err := replay(r)
	if err != nil {
		return err
	}
	if x.Answer = answer; answer.Before != nil {
		x.Answer = *answer.Before
		x.Answer.Replayed, x.Answer.Canceled = true, true
	}
	for i, key := range x.Accounts {
		at := x.At
		if answer.Canceled && answer.Before == nil { // the answer is that to the cancellation
			sp, err := spendOf(r)
			if err != nil {
				return err
			}
			at = sp.parts[0].dates[i]
		}
		e := &explaining{Explanation: x, account: i, key: key, id: id, at: at}
		if err := e.run(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// explaining explains a decision in one of its accounts.
type explaining struct {
	*Explanation
	account int
	key     string
	id      string
	at      int64 // from which on the entry of the request is to be looked for

	now   *account     // as it is
	entry ledger.Entry // of the request
}

func (x *explaining) run(ctx context.Context, d *Decider) error {
	if err := x.find(ctx, d); err != nil || x.entry.Seq == 0 {
		return err
	}
	budget, err := x.revision(ctx, d)
	if err != nil {
		return err
	}
	plan := x.planOf(budget)
	if plan == nil {
		return nil
	}
	for i := range plan.Rules {
		if rule := &plan.Rules[i]; rule.Span() != figures.Alone && rule.Matches(x.entry.Tags, x.entry.SpendAmount) {
			if err := x.rule(ctx, d, rule); err != nil {
				return err
			}
		}
	}
	return nil
}

// find finds the entry of the request.
func (x *explaining) find(ctx context.Context, d *Decider) error {
	for at := (ledger.Position{At: x.at}); ; {
		now, page, err := x.page(ctx, d, func(snap ledger.Snapshot, _ *account) ([]ledger.Entry, ledger.Place, error) {
			list, err := snap.Since(x.key, at, replayPage)
			return list, ledger.Place{}, err
		})
		if err != nil {
			return err
		}
		x.now = now
		for i := range page.entries {
			if e := &page.entries[i]; e.RequestID == x.id && e.Kind != figures.KindCancel && e.Kind != figures.KindExpire {
				x.entry = *e
				return nil
			}
		}
		if len(page.entries) < replayPage {
			return nil // Prune has removed it
		}
		last := page.entries[len(page.entries)-1]
		at = ledger.Position{At: last.At, Seq: last.Seq}
	}
}

// entriesPage is a page of the entries of an account.
type entriesPage struct {
	account *account
	entries []ledger.Entry
	through ledger.Place
}

// page reads the account and a page of its entries.
func (x *explaining) page(
	ctx context.Context, d *Decider, read func(ledger.Snapshot, *account) ([]ledger.Entry, ledger.Place, error),
) (*account, *entriesPage, error) {
	out := new(entriesPage)
	err := d.Ledger.View(ctx, &ledger.Job{Accounts: []string{x.key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a := &account{past: past{key: x.key, snap: snap, time: minTime, pruned: minTime}}
		stored, err := snap.Account(x.key)
		if err == nil && stored.State != nil {
			_, err = a.decode(&stored)
		}
		if err != nil {
			return nil, err
		}
		if stored.Pruned != 0 {
			a.pruned = stored.Pruned
		}
		*out = entriesPage{account: a}
		entries, through, err := read(snap, a)
		out.entries, out.through = slices.Clone(entries), through
		return nil, err
	}})
	return out.account, out, err
}

// revision returns the rules that were in force then.
func (x *explaining) revision(ctx context.Context, d *Decider) (*Budget, error) {
	name := budgetOf(x.key)
	for r, err := range d.Revisions(ctx, name) {
		if err != nil {
			return nil, err
		}
		if r.At <= x.entry.At || r.Seq == 1 {
			if x.account == 0 {
				x.Revision = r.Revision
			}
			return d.Rules.parse(&r)
		}
	}
	return nil, damaged("the rules of budget %q are gone", name)
}

// planOf returns the plan of the account then: the one that has all rules of the answer, preferably
// the one that it has now.
func (x *explaining) planOf(b *Budget) *Plan {
	var names []string
	for i := range x.Remaining {
		if x.Remaining[i].Account == x.account {
			names = append(names, x.Remaining[i].Rule)
		}
	}
	fits := func(p *Plan) bool {
		return p != nil && len(names) == len(p.Rules) && !slices.ContainsFunc(p.Rules, func(r figures.Rule) bool { return !slices.Contains(names, r.Name) })
	}
	if p := b.Plans[x.now.plan]; fits(p) || len(names) == 0 {
		return p
	}
	for _, p := range b.Plans {
		if fits(p) {
			return p
		}
	}
	return nil
}

// rule adds that which a rule counted.
func (x *explaining) rule(ctx context.Context, d *Decider, rule *figures.Rule) error {
	e := &x.entry
	edge := rule.Edge(e.At)
	out := ExplainedRule{
		Account: x.account, Rule: *rule, Value: e.Tags[rule.Per], Limit: rule.Limit.Minor, Incomplete: x.lacks(rule, edge),
		Refused: slices.Contains(e.Refused, rule.Name) || slices.Contains(e.Refused, ShadowPrefix+rule.Name),
	}
	for i := range x.Remaining {
		if u := &x.Remaining[i]; u.Account == x.account && u.Rule == rule.Name {
			out.Limit = u.Limit
		}
	}
	parts := make(map[string]*ExplainedPart)
	for place := ledger.EndOf(edge); place.Compare(ledger.EndOf(e.At)) < 0; {
		_, page, err := x.page(ctx, d, func(_ ledger.Snapshot, a *account) ([]ledger.Entry, ledger.Place, error) {
			a.time = max(a.time, e.At)
			return a.Page(place, e.At, replayPage)
		})
		if err != nil {
			return err
		}
		for i := range page.entries {
			x.count(&out, parts, &page.entries[i])
		}
		place = page.through
	}
	out.sum(parts)
	x.Rules = append(x.Rules, out)
	return nil
}

// lacks tells why entries after a date may be missing, or count otherwise than then.
func (x *explaining) lacks(rule *figures.Rule, edge int64) string {
	switch {
	case len(x.now.mends) > 0:
		return "Mend has set the account right, and entries may count at other dates now"
	case edge < x.now.pruned:
		return fmt.Sprintf("Prune has removed entries of %v and before", utc(x.now.pruned))
	case rule.Span() == figures.Leaks:
		return "a bucket leaks, so these are the spends of which a part may have been left, whole, and without older holds"
	case rule.Credits:
		return "a refund of a spend that a credit had paid for lowers these sums, and did not lower the figure"
	}
	return ""
}

// sum adds up the parts, and keeps the newest of them.
func (r *ExplainedRule) sum(parts map[string]*ExplainedPart) {
	for _, p := range parts {
		if p.Used != 0 || p.Held != 0 {
			r.Parts = append(r.Parts, *p)
			r.Used, r.Held = r.Used+p.Used, r.Held+p.Held
		}
	}
	slices.SortFunc(r.Parts, func(p, q ExplainedPart) int { return cmp.Or(cmp.Compare(p.Dated, q.Dated), cmp.Compare(p.ID, q.ID)) })
	if n := len(r.Parts) - mostParts; n > 0 {
		r.Parts, r.Omitted = r.Parts[n:], n
	}
}

// count adds an entry of before the decision to its part.
func (x *explaining) count(out *ExplainedRule, parts map[string]*ExplainedPart, e *ledger.Entry) {
	if e.Seq >= x.entry.Seq || out.Rule.Each && e.Tags[out.Rule.Per] != out.Value {
		return
	}
	used, held := out.Rule.Adds(e, x.entry.At)
	id := e.SpendID
	if id == "" {
		id = e.RequestID
	}
	p := parts[id]
	if p == nil {
		p = &ExplainedPart{ID: id, Dated: e.Dated}
		parts[id] = p
	}
	p.Used, p.Held, p.Dated = p.Used+used, p.Held+held, min(p.Dated, e.Dated)
}
