package spend

import (
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// Kinds of requests and of the entries that they cause.
const (
	kindSpend     = "spend"     // used rises
	kindRecord    = "record"    // used rises, whatever the rules say
	kindAuthorize = "authorize" // held rises
	kindIncrease  = "increase"  // held rises
	kindCapture   = "capture"   // held becomes used; used rises by money that was not held
	kindRelease   = "release"   // held falls by the rest of a final capture
	kindVoid      = "void"      // held falls
	kindDecrease  = "decrease"  // held falls
	kindExtend    = "extend"    // nothing changes but the expiry
	kindExpire    = "expire"    // held falls
	kindRefund    = "refund"    // used falls
	kindCredit    = "credit"    // the used amount of rules that count credits falls
	kindDecline   = "decline"   // nothing changes
	kindLimits    = "limits"    // the account's own limits change
	kindPlan      = "plan"      // the account has another set of rules
	kindFreeze    = "freeze"    // the account declines from now on
	kindUnfreeze  = "unfreeze"  // the account declines no longer
	kindForget    = "forget"    // the figures of a retired rule are gone
	kindMend      = "mend"      // the account goes by the clock again
	kindCancel    = "cancel"    // held and used fall by all that a request has moved
)

// spend is the stored state of a spend from its authorization to its last
// refund. Only decisions that hold all of its accounts change it.
//
// An expiry changes no spend. Each account knows by its time, and after a [Budgets.Mend] by its mends,
// whether a hold has expired. It leaves its part of an expired hold out of its sums, and adds the end
// of the hold later, without the other accounts.
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
	taken, refunded int64
}

// money returns n minor units in the currency of the spend.
func (sp *spend) money(n int64) Money { return Money{n, sp.currency} }

// seqIn returns the number of the part's entry in the account.
func (sp *spend) seqIn(key string, p part) int64 { return p.seqs[slices.Index(sp.accounts, key)] }

// dateIn returns the date at which the part counts in the account.
func (sp *spend) dateIn(key string, p part) int64 { return p.dates[slices.Index(sp.accounts, key)] }

// unborn reports whether the spend was canceled before it began, and has taken nothing since.
func (sp *spend) unborn() bool { return sp.ended == kindCancel && sp.expires == 0 && sp.amount == 0 }

func (sp *spend) captured() bool {
	return slices.ContainsFunc(sp.parts, func(p part) bool { return p.taken > 0 })
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
	expired := t.expired() || sp.ended == kindExpire // the latter if money was captured afterwards
	switch {
	case t.spent():
		return fmt.Errorf("spend: %w, and the expiry spent the money; Refund gives a part back, and Record takes more", ErrHoldExpired)
	case expired && t.act.kind != kindCapture:
		return fmt.Errorf("spend: %w", ErrHoldExpired)
	case expired:
		return fmt.Errorf("spend: %w; to capture money that has been taken nevertheless, set Force", ErrHoldExpired)
	case sp.ended != "":
		return fmt.Errorf("spend: %w: a %s ended it", ErrHoldEnded, sp.ended)
	case sp.expires == 0:
		return fmt.Errorf("spend: %w: the amount was charged or recorded at once and never held", ErrHoldEnded)
	}
	return nil
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
			e := ledger.Entry{Kind: kindCapture, RequestID: requestID, Amount: k, Used: k, Held: -k, Expires: sp.expires, Spends: sp.spends}
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
		if i == 0 && sp.pending {
			e.Pending = -1
		}
		if kind == kindExpire && sp.spends {
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
				Kind: kindDecrease, RequestID: requestID, Amount: k, Held: -k, Expires: sp.expires, Spends: sp.spends,
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
	sp.ended = kindCapture
	if !sp.captured() {
		sp.ended = kindVoid
	}
	return nil
}

// extend moves the held money to another end of the hold.
func (sp *spend) extend(accounts []*account, requestID string, later int64, spends bool) error {
	for _, a := range accounts {
		a.close(sp)
		since := a.time
		for i, p := range sp.parts {
			pending := int64(0)
			if i == 0 && sp.pending {
				pending = 1
			}
			since = min(since, sp.dateIn(a.key, p))
			for _, e := range [...]ledger.Entry{
				{Held: -p.held, Pending: -pending, Expires: sp.expires, Spends: sp.spends},
				{Held: p.held, Pending: pending, Expires: later, Spends: spends},
			} {
				if e.Kind, e.RequestID = kindExtend, requestID; p.held > 0 {
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
			if err := sp.correct(a, i, ledger.Entry{Kind: kindRefund, RequestID: requestID, Amount: k, Used: -k}); err != nil {
				return err
			}
		}
		p.refunded += k
		n -= k
	}
	return nil
}
