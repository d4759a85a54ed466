package decide

import (
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// spend is the stored state of a spend from its authorization to its last
// refund, or the reversal of one. Only decisions that hold all of its accounts change it.
//
// An expiry changes no spend. Each account knows by its time, and after a Mend by its mends,
// whether a hold has expired. It leaves its part of an expired hold out of its sums, and adds the
// end of the hold later, without the other accounts.
type spend struct {
	id       string
	accounts []string // keys
	currency string
	tags     map[string]string
	amount   int64  // of the request that began it
	expires  int64  // 0, which is no time, if nothing was ever held
	spends   bool   // the expiry spends the held money
	total    int64  // authorized, increased and forced
	counted  bool   // Count rules count the spend for good
	pending  bool   // Count rules count the spend until the hold ends; nothing is captured
	ended    string // kind of the end of the hold; empty while it is open, and after an expiry
	parts    []part
}

// part is money that counts at one date in each account: an authorization, an increase, or a
// capture of money that was not held.
type part struct {
	dates           []int64 // in each account; they differ where the time of an account is ahead
	seqs            []int64 // number of its entry in each account
	held            int64
	taken, refunded int64 // a reversal lowers refunded
}

// money returns n minor units in the currency of the spend.
func (sp *spend) money(n int64) money.Money { return money.Money{Minor: n, Currency: sp.currency} }

// add returns the total of the spend with n more.
func (sp *spend) add(n int64) (int64, error) {
	total, ok := money.Add(sp.total, n)
	if !ok {
		return 0, fmt.Errorf("spend: %w: the spend's total would be out of range; %s", money.ErrAmount, money.Largest(sp.currency))
	}
	return total, nil
}

// seqIn returns the number of the part's entry in the account.
func (sp *spend) seqIn(key string, p part) int64 { return p.seqs[slices.Index(sp.accounts, key)] }

// dateIn returns the date at which the part counts in the account.
func (sp *spend) dateIn(key string, p part) int64 { return p.dates[slices.Index(sp.accounts, key)] }

// unborn reports whether the spend was canceled before it began, and has taken nothing since.
func (sp *spend) unborn() bool {
	return sp.ended == figures.KindCancel && sp.expires == 0 && sp.amount == 0
}

func (sp *spend) captured() bool {
	return slices.ContainsFunc(sp.parts, func(p part) bool { return p.taken > 0 })
}

// pendingIn returns the number of spends that Count rules count in part i until the hold ends.
func (sp *spend) pendingIn(i int) int64 {
	if i == 0 && sp.pending {
		return 1
	}
	return 0
}

// held returns the money that the hold still reserves.
func (sp *spend) held() (n int64) {
	for _, p := range sp.parts {
		n += p.held
	}
	return n
}

// takenBy returns the money of a part that was taken, also by the expiry of the hold if that spent
// it.
func (p *part) takenBy(spent bool) int64 {
	if spent {
		return p.taken + p.held
	}
	return p.taken
}

// refundable returns the money that was taken and not given back.
func (sp *spend) refundable(spent bool) (n int64) {
	for _, p := range sp.parts {
		n += p.takenBy(spent) - p.refunded
	}
	return n
}

// correct adds to an account an entry that corrects part i at the date of the
// part.
func (sp *spend) correct(a *account, i int, e ledger.Entry) error {
	p := sp.parts[i]
	e.SpendID, e.SpendAmount, e.Tags = sp.id, sp.amount, sp.tags
	e.Part = sp.seqIn(a.key, p)
	_, err := a.addDated(e, sp.dateIn(a.key, p))
	return err
}

// capture takes up to n of the held money, the oldest part first. It returns
// the rest of n, which was not held.
func (sp *spend) capture(accounts []*account, requestID string, n int64) (rest int64, err error) {
	for i := range sp.parts {
		p := &sp.parts[i]
		k := min(n, p.held)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			e := ledger.Entry{Kind: figures.KindCapture, RequestID: requestID, Amount: k, Used: k, Held: -k, Expires: sp.expires, Spends: sp.spends}
			if sp.pending {
				e.Count, e.Pending = 1, -1
			}
			if err := sp.correct(a, i, e); err != nil {
				return 0, err
			}
		}
		sp.counted, sp.pending = true, false
		p.held -= k
		p.taken += k
		n -= k
	}
	return n, nil
}

// release adds entries to one account that release all held money, the newest
// part first. The spend itself stays as it is.
func (sp *spend) release(a *account, kind, requestID string) error {
	for i := len(sp.parts) - 1; i >= 0; i-- {
		held := sp.parts[i].held
		if held == 0 {
			continue
		}
		e := ledger.Entry{Kind: kind, RequestID: requestID, Amount: held, Held: -held, Expires: sp.expires, Spends: sp.spends}
		e.Pending = -sp.pendingIn(i)
		if kind == figures.KindExpire && sp.spends {
			e.Used, e.Count = -e.Held, -e.Pending
		}
		if err := sp.correct(a, i, e); err != nil {
			return err
		}
	}
	return nil
}

// decrease releases n of the held money, the newest part first. The hold has more than n.
func (sp *spend) decrease(accounts []*account, requestID string, n int64) error {
	for i := len(sp.parts) - 1; i >= 0 && n > 0; i-- {
		p := &sp.parts[i]
		k := min(n, p.held)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			if err := sp.correct(a, i, ledger.Entry{
				Kind: figures.KindDecrease, RequestID: requestID, Amount: k, Held: -k, Expires: sp.expires, Spends: sp.spends,
			}); err != nil {
				return err
			}
		}
		p.held -= k
		n -= k
	}
	return nil
}

// end releases all held money in every account and closes the hold.
func (sp *spend) end(accounts []*account, kind, requestID string) error {
	for _, a := range accounts {
		if err := sp.release(a, kind, requestID); err != nil {
			return err
		}
		a.close(sp)
	}
	for i := range sp.parts {
		sp.parts[i].held = 0
	}
	sp.pending = false
	sp.ended = figures.KindCapture
	if !sp.captured() {
		sp.ended = figures.KindVoid
	}
	return nil
}

// extend moves the held money to another end of the hold.
func (sp *spend) extend(accounts []*account, requestID string, later int64, spends bool) error {
	for _, a := range accounts {
		a.close(sp)
		since := a.time
		for i, p := range sp.parts {
			pending := sp.pendingIn(i)
			since = min(since, sp.dateIn(a.key, p))
			for _, e := range [...]ledger.Entry{
				{Held: -p.held, Pending: -pending, Expires: sp.expires, Spends: sp.spends},
				{Held: p.held, Pending: pending, Expires: later, Spends: spends},
			} {
				if e.Kind, e.RequestID = figures.KindExtend, requestID; p.held > 0 {
					if err := sp.correct(a, i, e); err != nil {
						return err
					}
				}
			}
		}
		a.open(later, since, sp.id)
	}
	sp.expires, sp.spends = later, spends
	return nil
}

// refund gives back n of the taken money, the newest part first.
func (sp *spend) refund(accounts []*account, requestID string, n int64, spent bool) error {
	for i := len(sp.parts) - 1; i >= 0 && n > 0; i-- {
		p := &sp.parts[i]
		k := min(n, p.takenBy(spent)-p.refunded)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			if err := sp.correct(a, i, ledger.Entry{Kind: figures.KindRefund, RequestID: requestID, Amount: k, Used: -k}); err != nil {
				return err
			}
		}
		p.refunded += k
		n -= k
	}
	return nil
}

// refunded returns the money that refunds gave back. A Cancel gives back all, and is no refund.
func (sp *spend) refunded() (n int64) {
	if sp.ended == figures.KindCancel {
		return 0
	}
	for _, p := range sp.parts {
		n += p.refunded
	}
	return n
}

// reverse takes n of the refunded money again, the oldest part first: refunds began with the
// newest.
func (sp *spend) reverse(accounts []*account, requestID string, n int64) error {
	if left := sp.refunded(); n > left {
		if sp.ended == figures.KindCancel {
			return fmt.Errorf("spend: %w: a Cancel gave the money back; Capture with Force takes money that has moved all the same", ErrExceeds)
		}
		return fmt.Errorf("spend: %w: the reversal is of %v and refunds of %v are left to reverse; Record takes money that a credit gave back",
			ErrExceeds, sp.money(n), sp.money(left))
	}
	for i := range sp.parts {
		p := &sp.parts[i]
		k := min(n, p.refunded)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			if err := sp.correct(a, i, ledger.Entry{Kind: figures.KindReverse, RequestID: requestID, Amount: k, Used: k}); err != nil {
				return err
			}
		}
		p.refunded -= k
		n -= k
	}
	return nil
}
