package spend

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
)

// LimitsRequest gives an account limits of its own, by [Budgets.SetLimits].
type LimitsRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Limits  []RuleLimit
}

// RuleLimit is an account's own limit for one rule of its budget.
type RuleLimit struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Amount takes the place of the rule's amount: from zero, which lets nothing pass, to the
	// amount of the rule, or to that of [Rule.AtMost]. For a [Count] rule it is a number of spends,
	// without a currency.
	Amount Money `json:"amount"`
	// Until ends the limit, by the ledger's clock at the decision; the zero time is no end. An
	// account can have two limits of one rule: one with an end, and one without. The one with an
	// end counts first. After its end the other one counts, or the amount of the budget if there
	// is none. The end is within 2^53 microseconds of 1970.
	Until time.Time `json:"until,omitzero"`
	// Default takes the account's own limits of the rule away, with and without an end. Amount and
	// Until are then zero.
	Default bool `json:"default,omitempty"`
	// Add adds Amount, which may be negative, to the limit that the account has: with Until, to the
	// one in force, and else to the one without an end, or to the amount of the budget. So two
	// top-ups that arrive together both count. A sum below zero is [ErrAmount], and one above the
	// largest limit that the rule allows is [ErrBudget].
	Add bool `json:"add,omitempty"`
	// If, unless it is nil, is the limit that the account must have, the one to which Add would
	// add. With another one nothing changes, and SetLimits is [ErrRequest]: somebody has changed
	// the limit since you read it.
	If *Money `json:"if,omitempty"`
}

// SetLimits gives an account limits of its own, in the place of the amounts of the budget: this
// card may spend 500 a day, and that one 5,000. All of them change together, in one decision. The
// other limits of the account stay, and no used amount is ever reset. The ledger keeps an entry of
// kind limits, whose Tags tell the new limits by rule. An end that has passed changes nothing. A
// request without limits, or with two of one rule, is [ErrRequest].
//
// The limit of a [Leaky] rule is its capacity, and the bucket drains in the period of the rule as
// before; under a limit of 0 it leaks as by the amount of the budget. Under a limit of 0 no money
// passes.
//
// A limit that the budget does not allow, or of a rule that it lacks, is [ErrBudget]. A budget
// whose amounts shrink later bounds the accounts' own limits from then on. Retries and other errors
// are those of [Budgets.Charge].
func (b *Budgets) SetLimits(ctx context.Context, r LimitsRequest) (_ Decision, err error) {
	c := b.begin(ctx, "set_limits")
	defer c.end(&err)
	act, err := b.newUpkeep(figures.KindLimits, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if len(r.Limits) == 0 {
		return Decision{}, requestErr("the request sets no limit")
	}
	act.Tags = make(map[string]string)
	for _, l := range r.Limits {
		if l.Amount, err = b.inUnit(l.Amount); err != nil {
			return Decision{}, err
		}
		var must *money.Money
		if l.If != nil {
			m, err := b.inUnit(*l.If)
			if err != nil {
				return Decision{}, err
			}
			must = new(money.Money(m))
		}
		if err := l.check(); err != nil {
			return Decision{}, err
		}
		if _, twice := act.Tags[l.Rule]; twice {
			return Decision{}, requestErr("two limits are of rule %q", l.Rule)
		}
		limit := decide.Limit{Rule: l.Rule, Amount: money.Money(l.Amount), Until: l.Until, Default: l.Default, Add: l.Add, If: must}
		act.Limits = append(act.Limits, limit)
		act.Tags[l.Rule] = limit.Text()
	}
	b.decider.Seal(act)
	return c.decided(b.decider.Decide(c.ctx, act))
}

// check returns an error if no budget could allow the limit.
func (l *RuleLimit) check() error {
	switch {
	case !validName(l.Rule):
		return requestErr("the name of a rule must be 1 to 64 bytes of UTF-8 without control characters")
	case l.Default && (l.Amount != Money{} || !l.Until.IsZero() || l.Add):
		return requestErr("the limit of rule %q is the default, and has an amount or an end, or adds something, too", l.Rule)
	case l.Amount.Minor < 0 && !l.Add:
		return fmt.Errorf("spend: %w: the limit of rule %q is %v; it must be 0 or more", ErrAmount, l.Rule, l.Amount)
	case !l.Until.IsZero() && !storable(l.Until):
		return requestErr("the limit of rule %q ends in the year %d; %s", l.Rule, l.Until.Year(), storableYears)
	}
	return nil
}

// Limits returns the account's own limits that are in force or will be, in the order of their
// rules. A rule has up to two: one with an end, and then one without. It writes nothing.
func (b *Budgets) Limits(ctx context.Context, account string) (_ []RuleLimit, err error) {
	c := b.begin(ctx, "limits")
	defer c.end(&err)
	key, err := b.key(account)
	if err != nil {
		return nil, err
	}
	limits, err := b.decider.Limits(c.ctx, key)
	var list []RuleLimit
	for _, l := range limits {
		list = append(list, RuleLimit{Rule: l.Rule, Amount: Money(l.Amount), Until: l.Until})
	}
	return list, err
}

// FreezeRequest freezes, unfreezes or mends an account.
type FreezeRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Reason  string // 1 to 256 bytes of UTF-8 without control characters; optional for Unfreeze
}

// Freeze makes an account decline Charge, Authorize, Increase and UpTo, with the reason in
// [Decline.Frozen]. Money that has moved is still accounted for: Capture, Void, Decrease, Refund,
// ReverseRefund, Record, Credit, Cancel and an Authorize with Forced go on. So does Extend, which
// takes no room: a hold can be kept for its capture. A frozen account that is frozen
// again has the new reason. The ledger keeps an entry of kind freeze, whose Tags have the reason.
// Retries and errors are those of [Budgets.Charge].
func (b *Budgets) Freeze(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, figures.KindFreeze, r)
}

// Unfreeze ends [Budgets.Freeze]. An account that is not frozen stays as it is. The ledger keeps an
// entry of kind unfreeze. Retries and errors are those of [Budgets.Charge].
func (b *Budgets) Unfreeze(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, figures.KindUnfreeze, r)
}

func (b *Budgets) sendFreeze(ctx context.Context, kind string, r FreezeRequest) (_ Decision, err error) {
	c := b.begin(ctx, kind)
	defer c.end(&err)
	act, err := b.newUpkeep(kind, r.ID, r.Account)
	if err == nil {
		err = because(act, r.Reason)
	}
	if err != nil {
		return Decision{}, err
	}
	b.decider.Seal(act)
	return c.decided(b.decider.Decide(c.ctx, act))
}

// because gives the action its reason.
func because(act *decide.Action, reason string) error {
	if reason == "" {
		if act.Kind == figures.KindUnfreeze {
			return nil
		}
		return requestErr("a %s needs a reason", act.Kind)
	}
	act.Tags = map[string]string{"reason": reason}
	return checkReason(reason)
}

func checkReason(reason string) error {
	if len(reason) > maxTagValue || !validText(reason) {
		return requestErr("a reason must be up to %d bytes of UTF-8 without control characters", maxTagValue)
	}
	return nil
}

// newUpkeep returns an action on an account of the main budget that moves no money.
func (b *Budgets) newUpkeep(kind, id, account string) (*decide.Action, error) {
	if err := checkID("ID", id); err != nil {
		return nil, err
	}
	key, err := b.key(account)
	if err != nil {
		return nil, err
	}
	return &decide.Action{Kind: kind, ID: id, Keys: []string{key}, Currency: b.main.Currency}, nil
}

// MoveRequest gives an account another name, by [Budgets.MoveAccount].
type MoveRequest struct {
	ID      string // of this request
	Account string // in the main budget
	To      string // the new name, in the main budget
	Reason  string // 1 to 256 bytes of UTF-8 without control characters
}

// MoveAccount gives an account another name: a card is replaced, or a person's data is erased. All
// that the ledger has of the account goes on under the new name as if it had always been there: its
// figures, entries, requests and holds, its own limits, its plan, and a freeze.
//
// Requests that arrive under the old name afterwards are decided on the account, and questions are
// answered from it: a retry, a charge that was in flight, a cancellation. For that the ledger keeps
// a SHA-256 of the old name, and nothing else of it. [Budgets.Prune] removes the digest after
// [Options.KeepIDs]; from then on a request under the old name begins a new account.
//
// An account that was never used, a new name that another account has, or has had within KeepIDs,
// and one that is the same as Account are [ErrRequest]. An account may move again, also back to a
// name that it had: Account is then its present one. The ledger
// keeps an entry of kind move, whose Tags have the reason. Retries and other errors are those of
// [Budgets.Charge].
func (b *Budgets) MoveAccount(ctx context.Context, r MoveRequest) (_ Decision, err error) {
	c := b.begin(ctx, "move_account")
	defer c.end(&err)
	act, err := b.newUpkeep(figures.KindMove, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if act.To, err = b.key(r.To); err != nil {
		return Decision{}, err
	}
	if r.To == r.Account {
		return Decision{}, requestErr("To is the name that the account has")
	}
	if err := because(act, r.Reason); err != nil {
		return Decision{}, err
	}
	b.decider.Seal(act)
	return c.decided(b.decider.Decide(c.ctx, act))
}

// PlanRequest gives an account the rules of a plan, by [Budgets.SetPlan].
type PlanRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Plan    string // one of [Budget.Plans]; empty for [Budget.Rules]
}

// SetPlan gives an account the rules of a plan. They judge its spends from this decision on, in
// every process. No used amount is reset: a rule that both plans have, of one name and with the
// same window and filter, goes on with its figures, also if the amount differs. A rule that is new
// to the account begins as [Budget] tells. A [Lifetime], [Leaky], [Calendar] or [CountPer] rule
// that the new plan lacks goes on counting, but no credits, in case the account comes back; any
// other one counts the entries anew then. The account's own limits stay, each for the rule of its
// name.
//
// A plan that the budget lacks is [ErrBudget]. The ledger keeps an entry of kind plan, whose Tags
// have the plan. Retries and other errors are those of [Budgets.Charge].
func (b *Budgets) SetPlan(ctx context.Context, r PlanRequest) (_ Decision, err error) {
	c := b.begin(ctx, "set_plan")
	defer c.end(&err)
	act, err := b.newUpkeep(figures.KindPlan, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if r.Plan != "" && !validName(r.Plan) {
		return Decision{}, requestErr("the name of a plan must be 1 to 64 bytes of UTF-8 without control characters")
	}
	act.Tags = map[string]string{decide.PlanTag: r.Plan}
	b.decider.Seal(act)
	return c.decided(b.decider.Decide(c.ctx, act))
}

// Plan returns the plan of an account, or the empty string for the rules of the budget. It writes
// nothing.
func (b *Budgets) Plan(ctx context.Context, account string) (_ string, err error) {
	c := b.begin(ctx, "plan")
	defer c.end(&err)
	key, err := b.key(account)
	if err != nil {
		return "", err
	}
	return b.decider.Plan(c.ctx, key)
}

// Mend sets an account right whose time is ahead: it has decided under a clock that was wrong, and
// since then its windows do not move. From Mend on the account goes by the ledger's clock again. An
// account that is not ahead stays as it is.
//
// Mend makes no room beyond the rules:
//   - Entries of the future count from now on, and so do later captures and refunds of their
//     spends. The ledger keeps their dates.
//   - A hold that has expired stays expired. A hold that is open keeps its end; [Budgets.Void] ends
//     one that the wrong clock has put too far away.
//   - A [Leaky] rule that has counted under the wrong clock is full, and leaks from now on.
//   - Credits of before make no room in rules with a window. A further Credit does.
//   - If [Budgets.Prune] has removed entries that a window of now needs, Mend is [ErrRequest].
//
// The At of later entries is not before that of the last one of the wrong clock. Dated tells when
// they count. The ledger keeps an entry of kind mend, whose Tags have the reason. Retries and other
// errors are those of [Budgets.Charge].
func (b *Budgets) Mend(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, figures.KindMend, r)
}
