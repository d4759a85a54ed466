package spend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Cancel undoes the Charge, Authorize, UpTo or Record with an ID, and needs no other content of it
// than its account, in the main budget. Call it if the deadline of a request has passed without an
// answer. It makes no difference whether the request was decided, is in flight elsewhere, or was
// never sent: after Cancel its ID holds and spends nothing for [Options.KeepIDs] from now on.
// Whoever sends the request afterwards is declined, with [Decision.Canceled] set. If [Budgets.Prune]
// has removed the ID of an old spend, Cancel does not find that spend: it goes on counting.
//
// Cancel releases the money that the request holds, with its increases, and gives back the money
// that was taken, at the date of the spend. [Count] rules without [Rule.CountsVoids] do not count the
// spend any more.
// [Decision.Amount] is the sum.
//
// Money that has moved all the same is still taken: by a forced Capture of the ID, and, if the
// request began no spend before its cancellation, by a Record or a forced Authorize with the ID.
//
// A Cancel that is sent again returns the first decision, with Replayed set. A request of another
// account is [ErrRequest]. The ID of a request that was approved and began no spend, such as an
// increase, is [ErrIDReused]. Other errors are those of [Budgets.Charge].
func (b *Budgets) Cancel(ctx context.Context, id, account string) (_ Decision, err error) {
	c := b.begin(ctx, "cancel")
	defer c.end(&err)
	act, err := b.newUpkeep(kindCancel, id, account)
	if err != nil {
		return Decision{}, err
	}
	act.spendID = id
	for range 3 { // the accounts of a spend never change, so the second attempt locks all of them
		var d Decision
		if d, err = b.decide(&c, act); !errors.Is(err, errAuthorizing) {
			return d, err
		}
	}
	return Decision{}, fmt.Errorf("spend: %w: the request is being decided; cancel it again", store.ErrUnavailable)
}

// canceledContent is the content of a request that was canceled. It is no digest.
var canceledContent = []byte(kindCancel)

func isCanceled(r *ledger.Request) bool { return bytes.Equal(r.Content, canceledContent) }

// replay returns the answer to a request that is sent again. If the request was canceled, it is
// declined.
func replay(r *ledger.Request) (Decision, error) {
	d, err := decodeAnswer(r)
	if d.Replayed = true; isCanceled(r) {
		d.Approved, d.Canceled, d.Amount, d.RetryAfter = false, true, Money{}, store.Never
	}
	return d, err
}

// canceled looks at the request with the ID that is to be canceled. It reports whether the answer
// is in out already.
func (t *attempt) canceled(prior *ledger.Request, out *decided) (done bool, err error) {
	d, err := decodeAnswer(prior)
	switch {
	case err != nil:
		return false, err
	case prior.Accounts[0] != t.act.keys[0]:
		return false, requestErr("the request to cancel is of another account")
	case isCanceled(prior):
		*out = decided{Decision: d}
		out.Replayed, out.Canceled = true, true
		return true, nil
	case prior.Spend == nil && d.Approved:
		return false, fmt.Errorf("spend: %w: it began no spend that could be canceled", ErrIDReused)
	}
	t.prior = prior
	return false, nil
}

// cancel undoes the spend of the ID, if it began one.
func (t *attempt) cancel() error {
	keys := t.act.keys
	if t.prior != nil && t.prior.Spend != nil {
		if err := t.decodeSpend(t.prior); err != nil {
			return err
		}
		keys = t.spend.accounts
	}
	if err := t.enter(keys); err != nil {
		return err
	}
	e := ledger.Entry{Kind: kindCancel, RequestID: t.act.id}
	if t.spend == nil { // it takes money that is captured all the same
		a := t.accounts[0]
		t.spend = &spend{
			id: t.act.id, accounts: keys, currency: t.act.currency, ended: kindCancel,
			parts: []part{{seqs: []int64{a.seq + 1}, dates: []int64{a.time}}},
		}
		return a.add(e)
	}
	sp := t.spend
	if err := t.cancelSpend(); err != nil {
		return err
	}
	e.SpendID, e.SpendAmount, e.Tags = sp.id, sp.amount, sp.tags
	for _, a := range t.accounts {
		if slices.ContainsFunc(a.added, func(e ledger.Entry) bool { return e.Kind == kindCancel }) {
			continue
		}
		if err := a.add(e); err != nil {
			return err
		}
	}
	return nil
}

// cancelSpend adds entries that take back all that the spend holds and has taken.
func (t *attempt) cancelSpend() error {
	sp := t.spend
	open, spent := t.usable() == nil, t.spent()
	counted := -1 // the part that Count rules count for good: the first of which money was taken, if any was
	if sp.counted || spent {
		counted = max(0, slices.IndexFunc(sp.parts, func(p part) bool { return p.takenBy(spent) > 0 }))
	}
	moved := int64(0)
	for n, a := range t.accounts {
		// The hold may have expired in accounts whose time is ahead, and be open in the others.
		held := sp.expires != 0 && sp.ended == "" && !a.expired(sp)
		for i, p := range slices.Backward(sp.parts) {
			e := ledger.Entry{Kind: kindCancel, RequestID: t.act.id, Used: p.refunded - p.takenBy(spent && !held)}
			if held && p.held > 0 {
				if e.Held, e.Expires, e.Spends = -p.held, sp.expires, sp.spends; i == 0 && sp.pending {
					e.Pending = -1
				}
			}
			if i == counted && e.Pending == 0 {
				e.Count = -1
			}
			e.Amount = -e.Used - e.Held
			if n == 0 {
				moved += e.Amount
			}
			if e.Amount == 0 && e.Count == 0 {
				continue
			}
			if err := sp.correct(a, i, e); err != nil {
				return err
			}
		}
		if held {
			a.close(sp)
		}
	}
	for i := range sp.parts {
		p := &sp.parts[i]
		p.taken = p.takenBy(spent)
		if p.refunded = p.taken; open { // else an account may not have the end of the hold yet
			p.held = 0
		}
	}
	sp.counted, sp.pending, sp.ended = false, sp.pending && !open, kindCancel
	t.moved = sp.money(moved)
	return nil
}
