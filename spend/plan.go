package spend

import "context"

// planTag is the tag of an entry of kind plan that has the plan's name.
const planTag = "plan"

// PlanRequest gives an account the rules of a plan, by [Budgets.SetPlan].
type PlanRequest struct {
	ID      string // of this request
	Account string // in the main budget
	Plan    string // one of [Budget.Plans]; empty for [Budget.Rules]
}

// SetPlan gives an account the rules of a plan. They judge its spends from this decision on, in every
// process. No used amount is reset: a rule that both plans have, of one name and with the same window
// and filter, goes on with its figures, also if the amount differs. A rule that is new to the account
// begins as [Budget] tells. A rule that the new plan lacks keeps its figures for [Options.KeepIDs], in
// case the account comes back. The account's own limits stay, each for the rule of its name.
//
// A plan that the budget lacks is [ErrBudget]. So is every later request about the account in a
// process whose budget lacks the plan. The ledger keeps an entry of kind plan, whose Tags have the
// plan. Retries and other errors are those of [Budgets.Charge].
func (b *Budgets) SetPlan(ctx context.Context, r PlanRequest) (_ Decision, err error) {
	c := b.begin(ctx, "set_plan")
	defer c.end(&err)
	act, err := b.newUpkeep(kindPlan, r.ID, r.Account)
	if err != nil {
		return Decision{}, err
	}
	if r.Plan != "" && !validName(r.Plan) {
		return Decision{}, requestErr("the name of a plan must be 1 to 64 bytes of UTF-8 without control characters")
	}
	act.tags = map[string]string{planTag: r.Plan}
	act.content = b.contentOf(act)
	return b.decide(&c, act)
}

// Plan returns the plan of an account, or the empty string for the rules of the budget. It writes
// nothing.
func (b *Budgets) Plan(ctx context.Context, account string) (_ string, err error) {
	c := b.begin(ctx, "plan")
	defer c.end(&err)
	key, err := b.main.key(account)
	if err != nil {
		return "", err
	}
	plan := new(string)
	err = b.view(c.ctx, &action{keys: []string{key}}, func(t *attempt) error {
		*plan = t.accounts[0].plan
		return nil
	})
	return *plan, err
}
