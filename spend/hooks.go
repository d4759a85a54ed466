package spend

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/store"
)

// Hooks are functions that Budgets call; see [Options.Hooks]. Packages otelbrim and prombrim make
// Hooks that count. Nil functions are skipped.
//
// Each hook runs on the goroutine of the caller, who waits for it. So a hook must be quick, must
// be safe for concurrent use, and must not call the Budgets. Budgets of [Budgets.With] call their
// hooks before the transaction commits.
type Hooks struct {
	// Start is called before each call of a method of Budgets that takes a context. The call and
	// the other hooks get the context that Start returns, for instance with a span in it.
	Start func(ctx context.Context, c Call) context.Context
	// Decision is called for each decision, also for a replayed one, but not for AbleToAccept.
	Decision func(ctx context.Context, c Call, d Decision)
	// Hold is called for each account in which a decision or a Prune holds money, or ends an
	// expired hold. It is called after Decision.
	Hold func(ctx context.Context, c Call, h Hold)
	// End is called after each call, also if the call failed before it reached the ledger. The call
	// of an iterator is one iteration.
	End func(ctx context.Context, c Call, o Outcome)
}

// Call is a call of a method of Budgets.
type Call struct {
	// Method is the name of the method in lower case with underscores, such as "charge" or "up_to".
	// That of an Authorize with [Request.Forced] is "authorize_forced".
	Method string
	Budget string // the main budget
}

// Hold is money of an account that a decision has held, or that an expired hold has given back or
// spent.
type Hold struct {
	Budget  string // of the account
	Amount  Money  // positive
	Expired bool
}

// Outcome tells how a call ended.
type Outcome struct {
	Took time.Duration
	// Ahead is the time by which an account of the decision was ahead of the ledger's clock, which
	// was set back or was wrong before. [Budgets.Mend] sets such an account right.
	Ahead time.Duration
	Err   error // nil also for a decline; of ChargeAll and AuthorizeAll, the first error of a request
}

// Label returns a word for the label of a metric: "approved"; "declined", if the amount would fit
// later; "never", if no wait helps; or "replayed", if the ID had been decided before.
func (d Decision) Label() string {
	switch {
	case d.Replayed:
		return "replayed"
	case d.Approved:
		return "approved"
	case d.RetryAfter >= store.Never:
		return "never"
	}
	return "declined"
}

// Label returns a word for the label of a metric: "ok"; "invalid", if the request was wrong, or
// contradicts the ledger; "unknown", if the request may have been decided; "canceled", if the
// caller left; "late", if the caller's deadline passed; or "failed".
func (o Outcome) Label() string {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(o.Err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case o.Err == nil:
		return "ok"
	case is(store.ErrUnknownOutcome): // first: it may wrap an error of the context
		return "unknown"
	case is(context.Canceled):
		return "canceled"
	case is(context.DeadlineExceeded):
		return "late"
	case is(ErrBudget, ErrRequest, ErrAmount, ErrCurrency, ErrIDReused, ErrUnknownSpend, ErrHoldEnded, ErrHoldExpired,
		ErrExceeds):
		return "invalid"
	}
	return "failed"
}

// call is a call in flight.
type call struct {
	Call
	ctx   context.Context // of the caller, as the hooks have made it
	hooks []Hooks
	start time.Time
	ahead time.Duration
}

// begin calls the hooks at the beginning of a call.
func (b *Budgets) begin(ctx context.Context, method string) call {
	c := call{ctx: ctx, hooks: b.hooks}
	if len(b.hooks) == 0 {
		return c
	}
	c.Call = Call{Method: method, Budget: b.main.Name}
	for _, h := range b.hooks {
		if h.Start != nil {
			c.ctx = h.Start(c.ctx, c.Call)
		}
	}
	c.start = time.Now()
	return c
}

// end calls the hooks at the end of a call.
func (c *call) end(err *error) {
	if len(c.hooks) == 0 {
		return
	}
	o := Outcome{Took: time.Since(c.start), Ahead: c.ahead, Err: *err}
	for _, h := range c.hooks {
		if h.End != nil {
			h.End(c.ctx, c.Call, o)
		}
	}
}

// iterate calls the hooks around each iteration over a list.
func iterate[T any](
	ctx context.Context, b *Budgets, method string, list func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var err error
		c := b.begin(ctx, method)
		defer c.end(&err)
		for e, failed := range list(c.ctx) {
			if err = failed; !yield(e, err) {
				return
			}
		}
	}
}

// decided calls the hooks for a decision, and returns it, or the error.
func (c *call) decided(out *decide.Outcome, err error) (Decision, error) {
	if err != nil {
		return Decision{}, err
	}
	d := newDecision(&out.Answer)
	for _, h := range c.hooks {
		if h.Decision != nil {
			h.Decision(c.ctx, c.Call, d)
		}
	}
	c.held(out.Holds)
	c.ahead = max(c.ahead, out.Ahead)
	return d, nil
}

// held calls the hooks for changes of holds.
func (c *call) held(holds []decide.Hold) {
	for _, h := range c.hooks {
		for _, x := range holds {
			if h.Hold != nil {
				h.Hold(c.ctx, c.Call, Hold{Budget: accountOf(x.Account).Budget, Amount: Money(x.Amount), Expired: x.Expired})
			}
		}
	}
}
