package spend

import (
	"errors"
	"fmt"

	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/money"
)

// Errors of the caller. Nothing has changed. The ID of the request is still free, except after
// ErrIDReused. Match the errors with [errors.Is]. A decline is not an error. The errors of a ledger
// are those of package store: ErrUnavailable, ErrUnknownOutcome, ErrMisconfigured, ErrCorrupt and
// ErrClosed.
var (
	// ErrBudget is a mistake in a budget, a rule or an option, rules that cannot take the place of
	// those in the ledger, a plan that the budget lacks, or a limit that it does not allow; see
	// [New], [Budgets.SetRules], [Budgets.SetPlan] and [Budgets.SetLimits].
	ErrBudget = decide.ErrBudget
	// ErrRequest is a mistake in the ID, account, tags, date, TTL or reason of a request, or in the
	// name of a budget.
	ErrRequest = decide.ErrRequest
	// ErrAmount is an amount that must be positive and is not, that is no decimal
	// number, that is finer than the unit of its budget, or that is too large to be
	// counted exactly.
	ErrAmount = money.ErrAmount
	// ErrCurrency is an unknown currency, or another currency than the budget's.
	// Nothing is converted.
	ErrCurrency = money.ErrCurrency
	// ErrIDReused is an ID that the ledger knows from a request with another meaning. [Budgets.Get]
	// tells the decision about that request. A new ID would decide, and pay, once more.
	ErrIDReused = decide.ErrIDReused
	// ErrUnknownSpend is a request about a spend that the ledger does not have, or has pruned, or a
	// [Budgets.Get] of such an ID.
	ErrUnknownSpend = decide.ErrUnknownSpend
	// ErrHoldEnded is an increase, decrease, extension, capture or void of a hold that has ended
	// before its TTL, or of a spend that was never held. A forced capture still takes the money
	// after the end of a hold.
	ErrHoldEnded = decide.ErrHoldEnded
	// ErrHoldExpired is an increase, decrease, extension, capture or void of a hold after its TTL.
	// If the hold was canceled since, it is ErrHoldEnded. A forced capture still takes the money,
	// but not of a hold that its expiry has spent: take more of that by Record.
	ErrHoldExpired = decide.ErrHoldExpired
	// ErrExceeds is an amount above the one that is left: a capture or decrease of more than the
	// hold has, a refund of more than was taken and not yet given back, or a reversal of more than
	// refunds gave back and no reversal has taken again. A forced capture still takes the money,
	// and a forced refund gives it back.
	ErrExceeds = decide.ErrExceeds
)

// BudgetError is a mistake in a [Budget], with its place. It is [ErrBudget], and the mistake may be
// [ErrAmount] or [ErrCurrency], too.
type BudgetError struct {
	// Path leads to the place in the JSON form of the budget: names of fields, plans and tags
	// (string), and indices of lists (int). It is "plans", "gold", 2, "window" for
	// plans.gold[2].window. The path of a field that is missing is that of its rule.
	Path []any
	Err  error
}

// Error returns the place and the mistake.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("spend: %v: %s%v", ErrBudget, strictjson.Place(e.Path), e.Err)
}

// Unwrap returns ErrBudget and the mistake.
func (e *BudgetError) Unwrap() []error { return []error{ErrBudget, e.Err} }

// budgetErr returns err, which may tell its place, as a mistake of a budget.
func budgetErr(err error) error {
	if err == nil {
		return nil
	}
	at := &strictjson.Error{Err: err}
	errors.As(err, &at)
	return &BudgetError{Path: at.Path, Err: at.Err}
}

func unknownCurrency(code string) error {
	return fmt.Errorf("spend: %w", notCurrency(code))
}

func notCurrency(code string) error {
	return fmt.Errorf("%w: %.8q is not an ISO 4217 code with a minor unit; write it like EUR, or USD:8 for a scale of 8 decimal places", ErrCurrency, code)
}

func requestErr(format string, args ...any) error { return decide.BadRequest(format, args...) }
