package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim/spend"
)

// Spends is the number of spends of a history. Each is authorized, captured and refunded once, by
// requests that may be sent many times.
const Spends = 12

// phase is the progress of a spend.
type phase uint8

const (
	absent phase = iota
	authorized
	captured
	refunded
)

// Spend is the sum of a spend's entries.
type Spend struct{ Held, Used, Entries int64 }

const refund = 40 // minor units

// amountOf returns the amount of spend n, in minor units.
func amountOf(n int) int64 { return 100 + int64(n) }

// accountOf returns the account of spend n.
func accountOf(n int) string { return fmt.Sprint("account ", n%3) }

// spent returns the entries of spend n.
func (p phase) spent(n int) Spend {
	return [...]Spend{
		absent:     {},
		authorized: {Held: amountOf(n), Entries: 1},
		captured:   {Used: amountOf(n), Entries: 2},
		refunded:   {Used: amountOf(n) - refund, Entries: 3},
	}[p]
}

// next sends the request of kind k, and reports whether the ledger accepts it. A request that was
// accepted before is accepted again, and changes nothing.
func (p phase) next(k Kind) (phase, bool) {
	switch {
	case k == Authorize:
		return max(p, authorized), true
	case k == Capture && p >= authorized:
		return max(p, captured), true
	case k == Refund && p >= captured:
		return refunded, true
	}
	return p, false
}

// budget has room for all spends of a history.
var budget = spend.Budget{Name: "history", Currency: "EUR", Rules: []spend.Rule{
	spend.Lifetime("ever", euros(1_000_000)),
	spend.Rolling("month", euros(1_000_000), 30*24*time.Hour),
}}

func euros(minor int64) spend.Money { return spend.Money{Minor: minor, Currency: "EUR"} }

// send sends the request of an op to the ledger.
func send(ctx context.Context, b *spend.Budgets, op Op) Answer {
	n := op.Keys[0]
	id := func(k Kind) string { return fmt.Sprint(k, " ", n) }
	var d spend.Decision
	var err error
	switch op.Kind {
	case Authorize:
		r := spend.Request{ID: id(Authorize), Account: accountOf(n), Amount: euros(amountOf(n))}
		r.TTL = 365 * 24 * time.Hour
		d, err = b.Authorize(ctx, r)
	case Capture:
		r := spend.CaptureRequest{ID: id(Capture), HoldID: id(Authorize), Amount: euros(amountOf(n)), Final: true}
		d, err = b.Capture(ctx, r)
	case Refund:
		d, err = b.Refund(ctx, spend.RefundRequest{ID: id(Refund), SpendID: id(Authorize), Amount: euros(refund)})
	}
	switch {
	case errors.Is(err, spend.ErrUnknownSpend), errors.Is(err, spend.ErrExceeds):
		return Answer{Results: []Result{{NotHeld: true}}}
	case err != nil:
		return Failed(err)
	}
	return Answer{Results: []Result{{Accepted: d.Approved}}}
}

// spendsIn returns the spends that the ledger holds, and verifies their accounts.
func spendsIn(ctx context.Context, b *spend.Budgets) (all [Spends]Spend, err error) {
	numbers := make(map[string]int)
	for n := range all {
		numbers[fmt.Sprint(Authorize, " ", n)] = n
	}
	for account := range 3 {
		if err := b.Verify(ctx, accountOf(account)); err != nil {
			return all, err
		}
		for e, err := range b.History(ctx, accountOf(account), nil) {
			if err != nil {
				return all, err
			}
			n, known := numbers[e.SpendID]
			if !known || accountOf(n) != accountOf(account) {
				return all, fmt.Errorf("account %d has an entry of %q", account, e.SpendID)
			}
			all[n].Held += e.Held.Minor
			all[n].Used += e.Used.Minor
			all[n].Entries++
		}
	}
	return all, nil
}
