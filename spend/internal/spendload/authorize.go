package spendload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Budget is the budget of the benchmarks: a rolling window, a calendar month and a ceiling for one
// spend. No amount of [Authorizer] reaches a limit.
func Budget(window time.Duration) spend.Budget {
	return spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("rolling", euros(1<<50), window),
		spend.Calendar("month", euros(1<<50), spend.Month, time.UTC),
		spend.PerTransaction("single", euros(1<<40)),
	}}
}

// Account returns the name of the account with a number.
func Account(number int) string { return fmt.Sprint("account:", number) }

// ID returns a new ID that begins with the time, like a UUID of version 7. Package spend advises such
// IDs for a large ledger.
func ID() string {
	return fmt.Sprintf("%012x%04x%016x", time.Now().UnixMilli(), rand.Uint32N(1<<16), rand.Uint64())
}

// RandomID returns a new ID that is random from its first byte on, like a UUID of version 4.
func RandomID() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

// Authorizer returns a function that authorizes 1.00 EUR on an account, under an ID of its own.
func Authorizer(l ledger.Ledger, window time.Duration, id func() string) (func(ctx context.Context, account int) error, error) {
	cards, err := spend.New(l, Budget(window), nil)
	return func(ctx context.Context, account int) error {
		d, err := cards.Authorize(ctx, spend.Request{ID: id(), Account: Account(account), Amount: euros(1_00)})
		if err == nil && !d.Approved {
			err = fmt.Errorf("declined: %+v", d)
		}
		return err
	}, err
}
