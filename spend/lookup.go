package spend

import (
	"context"
	"iter"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
)

// Status is a spend as it is now: its amounts, and its state. A Status is a value and does not
// change when the spend does.
type Status struct {
	ID       string    `json:"id"` // of the request that began it
	Accounts []Account `json:"accounts"`
	// State is charged (also by a record), held, captured, voided, expired or canceled. An expired
	// hold of which a part was captured is expired, and one that was ended before is captured. A
	// hold that was ended before anything was captured is voided. An Authorize of 0 is captured. A
	// forced capture after the end of a hold changes none of these.
	State string `json:"state"`
	// ExpiresAt is the end of the hold, or the zero time if nothing was ever held.
	ExpiresAt time.Time         `json:"expires_at,omitzero"`
	Total     Money             `json:"total"`          // authorized, increased, charged and forced
	Held      Money             `json:"held"`           // still reserved
	Captured  Money             `json:"captured"`       // taken, also by an expiry that spent it; refunds not subtracted
	Refunded  Money             `json:"refunded"`       // less reversals; at most Captured: a forced refund credits what exceeds it
	Tags      map[string]string `json:"tags,omitempty"` // as they were sent, also those without a value
}

// Lookup is the answer to an earlier request.
type Lookup struct {
	ID       string   `json:"id"`
	Decision Decision `json:"decision"` // with Replayed set, and Canceled beside the first Declines
	// Spend is the spend that the request began, as it is now. It is nil if the request was
	// declined, or was about an earlier spend or an account.
	Spend *Status `json:"spend,omitempty"`
}

// newStatus returns a spend as callers see it.
func newStatus(s *decide.Status) *Status {
	out := &Status{
		ID: s.ID, State: s.State, Total: Money(s.Total), Held: Money(s.Held), Captured: Money(s.Captured), Refunded: Money(s.Refunded), Tags: s.Tags,
	}
	for _, key := range s.Accounts {
		out.Accounts = append(out.Accounts, accountOf(key))
	}
	if s.ExpiresAt != 0 {
		out.ExpiresAt = time.UnixMicro(s.ExpiresAt).UTC()
	}
	return out
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
	answer, spend, err := b.decider.Get(c.ctx, id)
	if err != nil {
		return Lookup{}, err
	}
	out := Lookup{ID: id, Decision: newDecision(&answer)}
	if spend != nil {
		out.Spend = newStatus(spend)
	}
	return out, nil
}

// Holds iterates over the open holds of an account, in the order of their expiry. It writes
// nothing. It reads page by page and holds nothing in the ledger between pages: a hold that opens,
// ends or gets another end meanwhile may be left out, and one that is extended may appear twice. An
// error ends the iteration.
func (b *Budgets) Holds(ctx context.Context, account string) iter.Seq2[Status, error] {
	return iterate(ctx, b, "holds", func(ctx context.Context) iter.Seq2[Status, error] { return b.holds(ctx, account) })
}

func (b *Budgets) holds(ctx context.Context, account string) iter.Seq2[Status, error] {
	key, err := b.key(account)
	if err != nil {
		return failed[Status](err)
	}
	return func(yield func(Status, error) bool) {
		for p := (decide.HoldsPage{More: true}); p.More; {
			if p, err = b.decider.OpenHolds(ctx, key, p.Last); err != nil {
				yield(Status{}, err)
				return
			}
			for i := range p.List {
				if !yield(*newStatus(&p.List[i]), nil) {
					return
				}
			}
		}
	}
}
