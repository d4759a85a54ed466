package spend

import (
	"cmp"
	"context"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
)

// Answer is the answer to one request of [Budgets.ChargeAll] or [Budgets.AuthorizeAll].
type Answer struct {
	Decision Decision
	// Err is the error that Charge or Authorize would have returned for this request alone.
	// Decision is then zero.
	Err error
}

// ChargeAll charges several requests, in their order, and answers each of them as
// [Budgets.Charge] would. It returns one Answer for each request, in the same order. A request that
// is declined or has a mistake leaves the others alone.
//
// The requests need not be of one account, and they are independent: some may be approved and
// others declined. For one amount that several accounts must approve together, see [Request.Also].
// Two requests with one ID are a request and its retry.
//
// A ledger decides the requests in one transaction, which costs less than one for each. If they are
// more than its batch size, it takes several transactions. If another transaction holds a row of a
// request, or if [Request.Also] has an account by a name of before, the request may be decided
// after the others. If a transaction fails, each of its requests has the error, such as
// [github.com/brimgo/brim/store.ErrUnknownOutcome]; requests with mistakes keep their own error.
// Send the failed requests again: the ledger replays those that were decided.
func (b *Budgets) ChargeAll(ctx context.Context, requests []Request) []Answer {
	return b.sendAll(ctx, "charge_all", figures.KindSpend, requests)
}

// AuthorizeAll authorizes several requests, as [Budgets.ChargeAll] charges them: each of them is
// answered as [Budgets.Authorize] would answer it.
func (b *Budgets) AuthorizeAll(ctx context.Context, requests []Request) []Answer {
	return b.sendAll(ctx, "authorize_all", figures.KindAuthorize, requests)
}

func (b *Budgets) sendAll(ctx context.Context, method, kind string, requests []Request) []Answer {
	var first error
	c := b.begin(ctx, method)
	defer c.end(&first)
	answers := make([]Answer, len(requests))
	var acts []*decide.Action
	var at []int // in requests
	for i, r := range requests {
		act, err := b.charging(c.ctx, kind, r, nil)
		if err != nil {
			answers[i].Err, first = err, cmp.Or(first, err)
			continue
		}
		acts, at = append(acts, act), append(at, i)
	}
	outs, errs := b.decider.DecideAll(c.ctx, acts)
	for k, err := range errs {
		a := &answers[at[k]]
		a.Decision, a.Err = c.decided(outs[k], err)
		first = cmp.Or(first, err)
	}
	return answers
}
