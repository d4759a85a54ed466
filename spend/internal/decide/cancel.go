package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// canceled looks at the request with the ID that is to be canceled. It reports whether the answer
// is in out already.
func (t *attempt) canceled(prior *ledger.Request, out *Outcome) (done bool, err error) {
	key, err := owner(t.snap, t.named[0])
	if err != nil {
		return false, err
	}
	if prior.Accounts[0] != key {
		return false, BadRequest("the request to cancel is of another account")
	}
	if isCanceled(prior) {
		*out = Outcome{}
		out.Answer, err = decodeCanceled(prior)
		out.Before, out.Replayed, out.Canceled = nil, true, true
		return true, err
	}
	d, err := decodeAnswer(prior)
	if err == nil && prior.Spend == nil && d.Approved {
		err = fmt.Errorf("spend: %w: it began no spend that could be canceled", ErrIDReused)
	}
	t.prior = prior
	return false, err
}

// cancel undoes the spend of the ID, if it began one.
func (t *attempt) cancel() error {
	keys := t.named
	switch {
	case t.prior == nil:
	case t.prior.Spend == nil: // its accounts are stored with the answer
		if err := t.locked(t.prior.Accounts); err != nil {
			return err
		}
	default:
		if err := t.decodeSpend(t.prior); err != nil {
			return err
		}
		keys = t.spend.accounts
	}
	if err := t.enter(keys, nil); err != nil {
		return err
	}
	e := ledger.Entry{Kind: figures.KindCancel, RequestID: t.act.ID}
	if t.spend == nil { // it takes money that is captured all the same
		a := t.accounts[0]
		t.spend = &spend{
			id: t.act.ID, accounts: t.keys(), currency: t.act.Currency, ended: figures.KindCancel,
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
		if slices.ContainsFunc(a.added, func(e ledger.Entry) bool { return e.Kind == figures.KindCancel }) {
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
	switch {
	case sp.counted && sp.amount == 0: // an authorization of nothing, which is counted from its beginning on
		counted = 0
	case sp.counted || spent:
		counted = max(0, slices.IndexFunc(sp.parts, func(p part) bool { return p.takenBy(spent) > 0 }))
	}
	for n, a := range t.accounts {
		moved, err := sp.cancel(a, t.act.ID, spent, counted)
		if err != nil {
			return err
		}
		if n == 0 {
			t.moved = sp.money(moved)
		}
	}
	for i := range sp.parts {
		p := &sp.parts[i]
		p.taken = p.takenBy(spent)
		if p.refunded = p.taken; open { // else an account may not have the end of the hold yet
			p.held = 0
		}
	}
	sp.counted, sp.pending, sp.ended = false, sp.pending && !open, figures.KindCancel
	return nil
}

// cancel adds entries to an account that take back all that the spend holds and has taken there:
// the hold may have expired in accounts whose time is ahead, and be open in the others.
func (sp *spend) cancel(a *account, requestID string, spent bool, counted int) (moved int64, err error) {
	held := sp.expires != 0 && sp.ended == "" && !a.expired(sp)
	for i, p := range slices.Backward(sp.parts) {
		e := ledger.Entry{Kind: figures.KindCancel, RequestID: requestID, Used: p.refunded - p.takenBy(spent && !held)}
		if held && p.held > 0 {
			e.Held, e.Expires, e.Spends, e.Pending = -p.held, sp.expires, sp.spends, -sp.pendingIn(i)
		}
		if i == counted && e.Pending == 0 {
			e.Count = -1
		}
		if e.Amount = -e.Used - e.Held; e.Amount != 0 || e.Count != 0 {
			err = cmp.Or(err, sp.correct(a, i, e))
			moved += e.Amount
		}
	}
	if held {
		a.close(sp)
	}
	return moved, err
}
