package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// attempt is one try at a decision on all of its accounts, at one time. When a
// ledger repeats a transaction, it makes a new attempt.
type attempt struct {
	group
	act    *Action
	named  []string        // keys of the accounts that the action names, as far as it is known where they have moved
	moved  money.Money     // by the request; zero if it is declined
	spend  *spend          // the spend that the action begins or changes; nil if the action was declined
	begins bool            // the action begins the spend
	prior  *ledger.Request // that the action cancels or takes the place of; nil if the ID is new
}

// run makes the decision, or repeats the first one if the ID is known. The
// decision in out is valid once the ledger has stored the changes.
func (t *attempt) run(out *Outcome) (*ledger.Changes, error) {
	prior, err := t.snap.Request(t.act.ID)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		if err := openAnswer(prior).Err; err != nil {
			return nil, err
		}
		if done, err := t.known(prior, out); done || err != nil {
			return nil, err
		}
	}
	if err := t.apply(); err != nil {
		return nil, err
	}
	*out = Outcome{}
	if out.Answer, err = t.answer(t.upkeeps()); err != nil {
		return nil, err
	}
	out.Amount = t.moved
	t.cross(&out.Answer, t.upkeeps())
	c, err := t.changes(&out.Answer)
	if err != nil {
		return nil, err
	}
	if t.act.Kind == figures.KindMove {
		out.Accounts = []string{t.act.To}
	}
	out.Canceled = t.act.Kind == figures.KindCancel
	if t.decider.Holds {
		for _, a := range t.accounts {
			out.Holds = a.holds(out.Holds)
		}
		out.Ahead = time.Duration(t.now-t.clock) * time.Microsecond
	}
	return c, nil
}

// known looks at an earlier request with the ID. It reports whether the answer is in out already.
func (t *attempt) known(prior *ledger.Request, out *Outcome) (done bool, err error) {
	switch {
	case t.act.Kind == figures.KindCancel:
		return t.canceled(prior, out)
	case isCanceled(prior) && t.act.moves():
		sp, err := spendOf(prior)
		if err != nil {
			return false, err
		}
		if sp.unborn() {
			t.prior = prior
			return false, nil
		}
	case isCanceled(prior):
	default:
		same := t.act.repeats(prior.Content)
		if same && len(t.named) > 0 {
			same, err = t.about(t.named, prior.Accounts)
		}
		if err != nil {
			return false, err
		}
		if !same {
			return false, fmt.Errorf("spend: %w; a new request needs a new ID; Budgets.Get tells the decision about this one", ErrIDReused)
		}
	}
	*out = Outcome{}
	out.Answer, err = replay(prior)
	return true, err
}

// apply carries out an action whose ID is new, or that takes the place of the prior one.
func (t *attempt) apply() error {
	t.tags = t.act.Tags
	switch {
	case t.act.Kind == figures.KindCancel:
		return t.cancel()
	case t.act.SpendID != "":
		return t.follow()
	}
	var plan *string
	if t.act.Kind == figures.KindPlan {
		plan = new(t.act.Tags[PlanTag])
	}
	if err := t.enter(t.named, plan); err != nil {
		return err
	}
	if err := t.countable(t.act.Amount); err != nil {
		return err
	}
	switch {
	case t.upkeeps():
		return t.upkeep()
	case t.act.Kind == figures.KindCredit:
		t.moved = money.Money{Minor: t.act.Amount, Currency: t.act.Currency}
		return t.credit(ledger.Entry{RequestID: t.act.ID, Amount: t.act.Amount, SpendAmount: t.act.Amount})
	}
	return t.charge()
}

// follow carries out an action on an earlier spend.
func (t *attempt) follow() error {
	if err := t.find(t.act.SpendID); err != nil {
		return err
	}
	if err := t.enter(t.spend.accounts, nil); err != nil {
		return err
	}
	if err := t.countable(t.act.Amount); err != nil {
		return err
	}
	if t.act.Kind != figures.KindIncrease { // the others are not declined
		t.moved = money.Money{Minor: t.act.Amount, Currency: t.act.Currency}
	}
	switch t.act.Kind {
	case figures.KindRefund:
		return t.refund()
	case figures.KindReverse:
		return t.spend.reverse(t.accounts, t.act.ID, t.act.Amount)
	case figures.KindCapture:
		return t.capture()
	}
	if err := t.usable(); err != nil {
		return err
	}
	switch t.act.Kind {
	case figures.KindIncrease:
		return t.increase()
	case figures.KindDecrease:
		return t.decrease()
	case figures.KindExtend:
		return t.extend()
	}
	return t.spend.end(t.accounts, figures.KindVoid, t.act.ID)
}

// upkeeps reports whether the action moves no money.
func (t *attempt) upkeeps() bool {
	switch t.act.Kind {
	case figures.KindLimits, figures.KindPlan, figures.KindFreeze, figures.KindUnfreeze, figures.KindMend, figures.KindMove:
		return true
	case figures.KindCancel:
		return t.spend == nil || t.spend.unborn()
	}
	return false
}

// find reads the spend that the action is about.
func (t *attempt) find(id string) error {
	r, err := t.snap.Request(id)
	if r != nil && r.Spend == nil {
		err = openAnswer(r).Err // it may have begun one
	}
	if err != nil {
		return err
	}
	if r == nil || r.Spend == nil {
		return fmt.Errorf("spend: %w: its ID is unknown, is older than KeepIDs, or began no spend, as that of a capture", ErrUnknownSpend)
	}
	if err := t.decodeSpend(r); err != nil {
		return err
	}
	t.act, err = t.act.in(t.spend.currency)
	return err
}

// decodeSpend reads the spend that a request began.
func (t *attempt) decodeSpend(r *ledger.Request) (err error) {
	if err := t.locked(r.Accounts); err != nil {
		return err
	}
	if t.spend, err = spendOf(r); err == nil {
		t.tags = t.spend.tags
	}
	return err
}

// decline adds to every account an entry that names the rules that refused, and the reason of a
// freeze. A declined spend would have begun with first units; an increase begins none.
func (t *attempt) decline(first int64) error {
	for i, a := range t.accounts {
		e := ledger.Entry{
			Kind: figures.KindDecline, RequestID: t.act.ID, SpendID: t.act.SpendID,
			SpendAmount: first, Amount: t.act.Amount, Tags: t.tags, Refused: t.refused(i),
		}
		if err := a.add(e); err != nil {
			return err
		}
	}
	if t.act.SpendID == "" {
		t.fill(&figures.Ask{Units: first, First: first, Total: first, Spends: 1, Tags: t.tags})
	}
	t.spend = nil
	return nil
}

// changes returns the decision in the form that the ledger stores.
func (t *attempt) changes(out *Answer) (*ledger.Changes, error) {
	c := &ledger.Changes{}
	for _, a := range t.accounts {
		for i := range a.added {
			t.act.explain(&a.added[i])
		}
		c.Accounts = append(c.Accounts, a.stored())
		c.Entries = append(c.Entries, a.added...)
		c.Opened = append(c.Opened, a.opened...)
		c.Closed = append(c.Closed, a.closed...)
	}
	r := ledger.Request{ID: t.act.ID, At: t.now, Accounts: out.Accounts, Content: t.act.Content, Answer: out.encode()}
	switch {
	case t.act.Kind == figures.KindCancel:
		r.Content, r.Answer, r.Spend = canceledContent, encodeCanceled(r.Answer, t.prior), t.spend.encode()
		if t.prior != nil {
			r.Accounts = t.prior.Accounts
		}
	case t.begins:
		r.Spend = t.spend.encode()
	case t.spend != nil:
		c.Spends = append(c.Spends, ledger.Request{ID: t.spend.id, Spend: t.spend.encode()})
	}
	r.Answer = book.Seal(r.Answer, besideAnswer(&r))
	if t.prior != nil {
		c.Replaced = append(c.Replaced, r)
	} else {
		c.Requests = append(c.Requests, r)
	}
	if t.act.Kind == figures.KindMove {
		return c, t.move(c, t.now, t.act.To)
	}
	return c, nil
}

// expired reports whether the hold has expired in one of the accounts.
func (t *attempt) expired() bool {
	sp := t.spend
	return sp.expires != 0 && sp.ended == "" && slices.ContainsFunc(t.accounts, func(a *account) bool { return a.expired(sp) })
}

// spent reports whether the expiry of the hold has spent the money.
func (t *attempt) spent() bool { return t.spend.spends && t.expired() }

// usable returns an error if the hold cannot be captured, increased or voided.
func (t *attempt) usable() error {
	sp := t.spend
	expired := t.expired() || sp.ended == figures.KindExpire // the latter if money was captured afterwards
	switch {
	case t.spent():
		return fmt.Errorf("spend: %w, and the expiry spent the money; Refund gives a part back, and Record takes more", ErrHoldExpired)
	case expired && t.act.Kind != figures.KindCapture:
		return fmt.Errorf("spend: %w", ErrHoldExpired)
	case expired:
		return fmt.Errorf("spend: %w; to capture money that has been taken nevertheless, set Force", ErrHoldExpired)
	case sp.ended != "":
		return fmt.Errorf("spend: %w: the spend is %s", ErrHoldEnded, sp.state(false))
	case sp.expires == 0:
		return fmt.Errorf("spend: %w: the amount was charged or recorded at once and never held", ErrHoldEnded)
	}
	return nil
}
