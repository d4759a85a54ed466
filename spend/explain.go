package spend

import (
	"context"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
)

// Explanation is the figures and spends that each rule had counted when it decided about a request.
type Explanation struct {
	ID string `json:"id"`
	// Decision is the answer, with Replayed set. Of a request that was approved and canceled later,
	// it is the answer to the cancellation.
	Decision Decision      `json:"decision"`
	Revision int64         `json:"revision"` // of the rules of the first account, by the time of the decision
	Rules    []RuleHistory `json:"rules"`    // that matched the request and count: not PerTransaction
}

// RuleHistory is a rule with that which it had counted before a decision.
type RuleHistory struct {
	Account
	Rule    string `json:"rule"`
	Value   string `json:"value,omitempty"` // of the tag of a rule with [Rule.Per]
	Shadow  bool   `json:"shadow,omitempty"`
	Refused bool   `json:"refused,omitempty"` // it refused, or would have, in the shadow
	Limit   Money  `json:"limit"`
	Used    Money  `json:"used"`
	Held    Money  `json:"held"`
	// Counted has the spends and credits of which Used and Held are the sums, in the order of their
	// dates: the newest 1,000 of them, and Omitted is the number of the others. A credit is
	// negative. Declines are among them if the rule counts those.
	Counted []Counted `json:"counted"`
	Omitted int       `json:"omitted,omitempty"`
	// Incomplete tells why Counted may lack something or have it at another date, so that Used and
	// Held may differ from the figures of then, which Decision has: Prune, Mend, the leak of a
	// [Leaky] rule, or credits. It is empty if it has all.
	Incomplete string `json:"incomplete,omitempty"`
}

// Counted is the part of a spend or a credit that a rule had counted.
type Counted struct {
	ID    string    `json:"id"` // of the request that began it
	Dated time.Time `json:"dated"`
	Used  Money     `json:"used"`
	Held  Money     `json:"held"`
}

// Explain tells which spends filled the rules when they decided about a request: weeks later, and
// also if it was declined because the account was frozen, or canceled. It counts the entries of
// then by the rules that were in force, page by page, and changes nothing. An ID that the ledger
// does not have, or that Prune has removed, is [ErrUnknownSpend].
//
// The limit of a rule is that of the account then. If the request was canceled after its approval,
// the ledger keeps the answer to the cancellation, and the limit is that of the rule.
func (b *Budgets) Explain(ctx context.Context, id string) (_ Explanation, err error) {
	c := b.begin(ctx, "explain")
	defer c.end(&err)
	if err := checkID("ID", id); err != nil {
		return Explanation{}, err
	}
	var x decide.Explanation
	if err := x.Explain(c.ctx, &b.decider, id); err != nil {
		return Explanation{}, err
	}
	out := Explanation{ID: id, Decision: newDecision(&x.Answer), Revision: x.Revision}
	for i := range x.Rules {
		out.Rules = append(out.Rules, newRuleHistory(&x, &x.Rules[i]))
	}
	return out, nil
}

func newRuleHistory(x *decide.Explanation, r *decide.ExplainedRule) RuleHistory {
	in := func(n int64) Money { return Money{n, r.Rule.Limit.Currency} }
	h := RuleHistory{
		Account: accountOf(x.Accounts[r.Account]), Rule: r.Rule.Name, Value: r.Value, Shadow: r.Rule.Shadow, Refused: r.Refused,
		Limit: in(r.Limit), Omitted: r.Omitted, Incomplete: r.Incomplete,
	}
	split := func(used, held int64) (Money, Money) {
		if figures.Kinds[r.Rule.Kind].Spends { // a spend counts also while it is held
			used, held = used+held, 0
		}
		return in(used), in(held)
	}
	h.Used, h.Held = split(r.Used, r.Held)
	for _, p := range r.Parts {
		used, held := split(p.Used, p.Held)
		h.Counted = append(h.Counted, Counted{p.ID, time.UnixMicro(p.Dated).UTC(), used, held})
	}
	return h
}
