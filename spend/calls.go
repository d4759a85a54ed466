package spend

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
)

// Charge charges the account if every rule agrees, and changes nothing if one does not: authorization and capture in one.
//
// The decision is atomic and durable on the ledger's terms, and uses its clock. A decline is not an error. Sent again with the
// same ID and content, it returns the first decision; with other content it is [ErrIDReused].
//
// If the error is [store.ErrUnknownOutcome], or the context ended, the spend may have been decided: send it again with the
// same ID, and learn what it was. Any other error means that nothing was changed.
//
// [store.ErrUnknownOutcome]: https://pkg.go.dev/github.com/brimgo/brim/store#ErrUnknownOutcome
func (s *Budgets) Charge(ctx context.Context, r Request) (Decision, error) {
	return s.charged(ctx, kindSpend, r)
}

// Authorize holds the amount if every rule agrees. Held money counts like spent money, from now on; in a [Leaky] rule it does
// not leak. The hold ends by Capture or Void, or by itself after its TTL. See Spend for what retries and errors mean.
func (s *Budgets) Authorize(ctx context.Context, r Request) (Decision, error) {
	return s.charged(ctx, kindAuthorize, r)
}

// Record notes money that was spent anyway. It is never declined, and what remains may become negative. See Spend for what
// retries and errors mean.
func (s *Budgets) Record(ctx context.Context, r Request) (Decision, error) {
	return s.charged(ctx, kindRecord, r)
}

func (s *Budgets) charged(ctx context.Context, kind string, r Request) (Decision, error) {
	act, err := s.charge(kind, r)
	if err != nil {
		return Decision{}, err
	}
	return s.decide(ctx, act)
}

// decide has the ledger run an action.
func (s *Budgets) decide(ctx context.Context, act *action) (Decision, error) {
	out := new(Decision) // on its own: a caller that is called away leaves it to the job
	if err := s.ledger.Decide(ctx, s.job(act, out)); err != nil {
		return Decision{}, err
	}
	return *out, nil
}

// Increase holds more on an open hold, if every rule agrees with the more; a [PerTransaction] rule is asked about the total.
// The more counts from now, and expires with the hold.
func (s *Budgets) Increase(ctx context.Context, r IncreaseRequest) (Decision, error) {
	act, err := s.follow(kindIncrease, r.ID, r.HoldID, r.Amount, false)
	if err != nil {
		return Decision{}, err
	}
	return s.decide(ctx, act)
}

// Capture takes money from a hold, the oldest part first; it keeps counting at the date of its authorization. The hold stays
// open for more until Final, or until nothing is left of it.
//
// More than is held is [ErrNotHeld], and a hold that has ended [ErrHoldEnded] or [ErrHoldExpired], unless Force is set: then
// the money is taken all the same, and what was not held counts from now, whatever the rules say.
func (s *Budgets) Capture(ctx context.Context, r CaptureRequest) (Decision, error) {
	act, err := s.follow(kindCapture, r.ID, r.HoldID, r.Amount, r.Final)
	if err != nil {
		return Decision{}, err
	}
	act.final, act.force = r.Final, r.Force
	return s.decide(ctx, act)
}

// Void releases what a hold still holds, and ends it.
func (s *Budgets) Void(ctx context.Context, r VoidRequest) (Decision, error) {
	act, err := s.follow(kindVoid, r.ID, r.HoldID, Money{}, false)
	if err != nil {
		return Decision{}, err
	}
	return s.decide(ctx, act)
}

// Refund gives back what was captured, spent or recorded, never more in total; that is [ErrNotCaptured]. It lowers what
// counts at the date of the spend; in a [Leaky] rule it drains the bucket, of what has not leaked by itself.
func (s *Budgets) Refund(ctx context.Context, r RefundRequest) (Decision, error) {
	act, err := s.follow(kindRefund, r.ID, r.SpendID, r.Amount, false)
	if err != nil {
		return Decision{}, err
	}
	return s.decide(ctx, act)
}

// AbleToAccept asks whether r would be approved, and writes nothing. Its ID may be empty and is ignored. Another caller may
// spend before the answer arrives: to decide, call Charge or Authorize.
func (s *Budgets) AbleToAccept(ctx context.Context, r Request) (Decision, error) {
	r.ID = "-"
	act, err := s.charge(kindSpend, r)
	if err != nil {
		return Decision{}, err
	}
	out := new(Decision)
	err = s.ledger.View(ctx, &ledger.Job{Accounts: act.keys, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		x := &decision{s: s, act: act, snap: snap}
		if err := x.load(act.keys); err != nil {
			return nil, err
		}
		x.ask(act.amount, act.amount, 1, act.tags)
		var err error
		*out, err = x.answer()
		return nil, err
	}})
	if err != nil {
		return Decision{}, err
	}
	return *out, nil
}

// Remaining reports every rule of the account now: what is used, held and left, and when that next grows if nobody spends. It
// writes nothing.
func (s *Budgets) Remaining(ctx context.Context, account string) ([]Usage, error) {
	key, err := s.key(account)
	if err != nil {
		return nil, err
	}
	list := new([]Usage)
	err = s.ledger.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		x := &decision{s: s, snap: snap}
		if err := x.load([]string{key}); err != nil {
			return nil, err
		}
		*list = nil
		a := x.accounts[0]
		for _, u := range a.rules {
			show := u.report(a, x.now)
			if show.GrowsAt, err = u.grows(a, x.now); err != nil {
				return nil, err
			}
			*list = append(*list, show)
		}
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// key checks the name of an account and returns its key.
func (s *Budgets) key(account string) (string, error) {
	act, err := s.charge(kindSpend, Request{ID: "-", Account: account, Amount: Money{1, s.main.Currency}})
	if err != nil {
		return "", err
	}
	return act.keys[0], nil
}

// Verify proves the account's running figures against its ledger: it adds up the entries plainly and replays what leaks. It
// reads all of them, and changes nothing. A difference is [store.ErrCorrupt]. Of an account whose entries were pruned it
// proves what the remaining ones can.
//
// [store.ErrCorrupt]: https://pkg.go.dev/github.com/brimgo/brim/store#ErrCorrupt
func (s *Budgets) Verify(ctx context.Context, account string) error {
	key, err := s.key(account)
	if err != nil {
		return err
	}
	return s.ledger.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := s.main.load(snap, key)
		if err != nil {
			return nil, err
		}
		entries, err := snap.Since(key, ledger.Position{At: ever})
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 && a.seq > 0 && a.needsAll() {
			return nil, fmt.Errorf("spend: %w", errLost)
		}
		return nil, a.verify(entries)
	}})
}
