package spend

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// Status is a spend as it is now: its amounts, and its state. A Status is a value and does not
// change when the spend does.
type Status struct {
	ID       string    `json:"id"` // of the request that began it
	Accounts []Account `json:"accounts"`
	// State is charged (also by a record), held, captured, voided, expired or canceled. An expired
	// hold of which a part was captured is expired.
	State string `json:"state"`
	// ExpiresAt is the end of the hold, or the zero time if nothing was ever held.
	ExpiresAt time.Time         `json:"expires_at,omitzero"`
	Total     Money             `json:"total"`    // authorized, increased, charged and forced
	Held      Money             `json:"held"`     // still reserved
	Captured  Money             `json:"captured"` // taken, also by an expiry that spent it; refunds not subtracted
	Refunded  Money             `json:"refunded"` // at most Captured: a forced refund credits what exceeds it
	Tags      map[string]string `json:"tags,omitempty"`
}

// Lookup is the answer to an earlier request.
type Lookup struct {
	ID       string   `json:"id"`
	Decision Decision `json:"decision"` // with Replayed set
	// Spend is the spend that the request began, as it is now. It is nil if the request was
	// declined, or was about an earlier spend or an account.
	Spend *Status `json:"spend,omitempty"`
}

// status returns the spend, whose hold may have expired.
func (sp *spend) status(expired bool) *Status {
	s := &Status{ID: sp.id, State: "charged", Total: sp.money(sp.total), Tags: sp.tags}
	for _, key := range sp.accounts {
		s.Accounts = append(s.Accounts, accountOf(key))
	}
	taken := int64(0)
	spent := expired && sp.spends && sp.ended == ""
	for _, p := range sp.parts {
		taken += p.takenBy(spent)
	}
	s.Captured, s.Refunded = sp.money(taken), sp.money(taken-sp.refundable(spent))
	held := sp.held()
	if sp.expires != 0 {
		s.ExpiresAt = time.UnixMicro(sp.expires).UTC()
		switch {
		case sp.ended == kindCancel:
			held = 0
		case sp.ended == kindCapture:
			s.State = "captured"
		case sp.ended == kindVoid:
			s.State = "voided"
		case sp.ended == kindExpire || expired:
			s.State, held = "expired", 0
		default:
			s.State = "held"
		}
	}
	if sp.ended == kindCancel {
		s.State = "canceled"
	}
	s.Held = sp.money(held)
	return s
}

// Get returns the answer to an earlier request of any kind, also a decline, and the spend that it
// began as it is now, by the latest of the ledger's clock and the times of its accounts. It writes
// nothing. An ID that the ledger does not have, or that Prune has removed, is [ErrUnknownSpend].
func (b *Budgets) Get(ctx context.Context, id string) (_ Lookup, err error) {
	c := b.begin(ctx, "get")
	defer c.end(&err)
	if err := checkID("ID", id); err != nil {
		return Lookup{}, err
	}
	out := new(Lookup)
	job := &ledger.Job{Requests: []string{id}, SpendID: id, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		*out = Lookup{ID: id}
		r, err := snap.Request(id)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, fmt.Errorf("spend: %w: its ID is unknown, or is older than KeepIDs", ErrUnknownSpend)
		}
		if out.Decision, err = replay(r); err != nil {
			return nil, err
		}
		if r.Spend == nil {
			return nil, nil
		}
		sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
		if err != nil {
			return nil, err
		}
		expired := false
		for _, key := range r.Accounts {
			stored, err := snap.Account(key)
			if err != nil {
				return nil, err
			}
			a := account{key: key, time: minTime}
			if stored.State != nil {
				if _, err := a.decode(stored.Rules, stored.State); err != nil {
					return nil, err
				}
			}
			a.time = max(a.time, snap.Now())
			expired = expired || a.expired(sp)
		}
		out.Spend = sp.status(expired)
		return nil, nil
	}}
	if err := b.ledger.View(c.ctx, job); err != nil {
		return Lookup{}, err
	}
	return *out, nil
}

// Holds returns the open holds of an account, in the order of their expiry. It writes nothing.
func (b *Budgets) Holds(ctx context.Context, account string) (_ []Status, err error) {
	c := b.begin(ctx, "holds")
	defer c.end(&err)
	key, err := b.main.key(account)
	if err != nil {
		return nil, err
	}
	list := new([]Status)
	err = b.view(c.ctx, &action{keys: []string{key}}, func(t *attempt) error {
		*list = nil
		a := t.accounts[0]
		held, _, err := a.holds(maxTime, unlimited)
		for _, sp := range held {
			if !a.expired(sp) {
				*list = append(*list, *sp.status(false))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return *list, nil
}
