package decide

import (
	"cmp"
	"fmt"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// charge decides Charge, Authorize and Record.
func (t *attempt) charge() error {
	act := t.act
	amount := act.Amount
	if act.Least > 0 {
		amount = t.largest(act.Least, amount)
	}
	agreed := t.ask(&figures.Ask{Units: amount, First: amount, Total: amount, Spends: 1, Tags: t.tags})
	if !agreed && act.Kind != figures.KindRecord && !act.Force {
		return t.decline(amount)
	}
	t.refusals = nil
	t.begins = true
	t.moved = money.Money{Minor: amount, Currency: act.Currency}
	if act.Backdated {
		if err := t.datable(); err != nil {
			return err
		}
	}
	t.spend = &spend{id: act.ID, accounts: t.keys(), currency: act.Currency, amount: amount, tags: act.Tags}
	if act.Kind != figures.KindAuthorize || amount == 0 {
		t.spend.counted = true
		if act.Kind == figures.KindAuthorize {
			t.spend.expires, t.spend.ended = ending(t.now), figures.KindCapture
		}
		return t.addPart(act.Kind, 0, amount, 1)
	}
	t.spend.pending, t.spend.spends = true, act.OnExpiry == SpendOnExpiry
	t.spend.expires = t.expiry(cmp.Or(act.TTL, t.decider.HoldTTL))
	for _, a := range t.accounts {
		a.open(t.spend.expires, t.act.date(a), act.ID)
	}
	return t.addPart(act.Kind, amount, 0, 1)
}

// datable returns an error if money cannot count at the date of the action.
func (t *attempt) datable() error {
	for _, a := range t.accounts {
		switch {
		case t.act.Dated > a.time:
			return BadRequest("Dated is %v; that is in the future", utc(t.act.Dated))
		case t.act.Dated <= a.Removed():
			return BadRequest("Dated is %v; Prune has removed entries of %v and before", utc(t.act.Dated), utc(a.Removed()))
		}
	}
	return nil
}

// addPart adds money to the spend, and an entry of that kind to every account.
func (t *attempt) addPart(kind string, held, used, spends int64) error {
	sp, amount := t.spend, held+used // one of them is zero
	total, err := sp.add(amount)
	if err != nil {
		return err
	}
	sp.total = total
	p := part{held: held, taken: used}
	for i, a := range t.accounts {
		e := ledger.Entry{
			Kind: kind, RequestID: t.act.ID, SpendID: sp.id, SpendAmount: sp.amount,
			Amount: amount, Held: held, Used: used, Count: spends, Tags: sp.tags, Refused: t.refused(i),
		}
		if held > 0 {
			e.Expires, e.Spends, e.Pending, e.Count = sp.expires, sp.spends, spends, 0
		}
		seq, err := a.addDated(e, t.act.date(a))
		if err != nil {
			return err
		}
		p.seqs, p.dates = append(p.seqs, seq), append(p.dates, t.act.date(a))
	}
	sp.parts = append(sp.parts, p)
	return nil
}

func (t *attempt) increase() error {
	sp, n := t.spend, t.act.Amount
	if _, err := sp.add(n); err != nil {
		return err
	}
	q := func(n int64) *figures.Ask {
		return &figures.Ask{Units: n, First: sp.amount, Total: sp.total + n, Tags: t.tags}
	}
	if t.act.Least > 0 {
		n = largestOf(t.act.Least, n, func(n int64) bool { return t.fit(q(n)) })
	}
	if !t.ask(q(n)) {
		return t.decline(0)
	}
	t.moved = sp.money(n)
	return t.addPart(figures.KindIncrease, n, 0, 0)
}

func (t *attempt) capture() error {
	act, sp := t.act, t.spend
	if err := t.usable(); err != nil {
		if !act.Force || act.Amount == 0 || t.spent() {
			return err
		}
		return t.captureLate()
	}
	if held := sp.held(); act.Amount > held && !act.Force {
		return fmt.Errorf("spend: %w: the capture is of %v and %v is held; Force takes it nevertheless",
			ErrExceeds, sp.money(act.Amount), sp.money(held))
	}
	rest, err := sp.capture(t.accounts, act.ID, act.Amount)
	if err != nil {
		return err
	}
	if rest > 0 {
		if err := t.addPart(figures.KindCapture, 0, rest, 0); err != nil {
			return err
		}
	}
	if act.Final || sp.held() == 0 {
		return sp.end(t.accounts, figures.KindRelease, act.ID)
	}
	return nil
}

// captureLate takes money after the hold has ended, by an entry of kind record
// that is dated now.
func (t *attempt) captureLate() error {
	sp := t.spend
	if sp.ended == "" && sp.expires != 0 {
		for _, a := range t.accounts {
			if a.expired(sp) {
				continue // the hold is out of the account's sums already
			}
			// The time of another account is ahead, and the hold has expired there.
			if err := sp.release(a, figures.KindExpire, sp.id); err != nil {
				return err
			}
			a.close(sp)
		}
		sp.ended = figures.KindExpire // the parts stay: an account may not have the end of the hold yet
	}
	kind := figures.KindRecord
	if sp.unborn() {
		sp.amount, kind = t.act.Amount, figures.KindSpend // the capture begins it
	}
	spends := int64(0)
	if !sp.counted {
		sp.counted, spends = true, 1
	}
	return t.addPart(kind, 0, t.act.Amount, spends)
}

func (t *attempt) decrease() error {
	sp, n := t.spend, t.act.Amount
	switch held := sp.held(); {
	case n > held:
		return fmt.Errorf("spend: %w: the decrease is of %v and %v is held", ErrExceeds, sp.money(n), sp.money(held))
	case n == held:
		return sp.end(t.accounts, figures.KindDecrease, t.act.ID)
	}
	return sp.decrease(t.accounts, t.act.ID, n)
}

func (t *attempt) extend() error {
	sp := t.spend
	ttl := cmp.Or(t.act.TTL, t.decider.HoldTTL)
	later, spends := sp.expires, sp.spends
	if ending(t.now+ttl.Microseconds()) > later {
		later = t.expiry(ttl)
	}
	if t.act.OnExpiry != 0 {
		spends = t.act.OnExpiry == SpendOnExpiry
	}
	if later > sp.expires || spends != sp.spends {
		return sp.extend(t.accounts, t.act.ID, later, spends)
	}
	for _, a := range t.accounts {
		if err := a.add(ledger.Entry{Kind: figures.KindExtend, RequestID: t.act.ID, SpendID: sp.id, SpendAmount: sp.amount, Tags: sp.tags}); err != nil {
			return err
		}
	}
	return nil
}

func (t *attempt) refund() error {
	sp, n := t.spend, t.act.Amount
	left := sp.refundable(t.spent())
	if n > left && !t.act.Force {
		return fmt.Errorf("spend: %w: the refund is of %v and the spend has %v left to give back; Force credits the rest",
			ErrExceeds, sp.money(n), sp.money(left))
	}
	err := sp.refund(t.accounts, t.act.ID, min(n, left), t.spent())
	if err != nil || n <= left {
		return err
	}
	return t.credit(ledger.Entry{RequestID: t.act.ID, SpendID: sp.id, Amount: n - left, SpendAmount: sp.amount})
}
