package serverload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Used asks for the used amount of the first account of a call, in minor units.
func (l *Ledger) Used(ctx context.Context, c Call) (int64, error) {
	list, err := l.b.Remaining(ctx, c.Places[0].Key)
	if err != nil {
		return 0, err
	}
	return list[0].Used.Minor, nil
}

// Hold asks for the hold of the first step of a call, by Get.
func (l *Ledger) Hold(ctx context.Context, c Call) (spend.Status, error) {
	found, err := l.b.Get(ctx, id(c, 0))
	if err != nil {
		return spend.Status{}, err
	}
	if found.Spend == nil {
		return spend.Status{}, errors.New("the request began no spend")
	}
	return *found.Spend, nil
}

// Holds asks for the holds of the first account of a call.
func (l *Ledger) Holds(ctx context.Context, c Call) ([]spend.Status, error) {
	return l.b.Holds(ctx, accountOf(c, 0).Name)
}

// History asks for the entries of the first account of a call.
func (l *Ledger) History(ctx context.Context, c Call) (all []spend.Entry, err error) {
	for e, err := range l.b.History(ctx, accountOf(c, 0).Name, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Several is the number of the requests of [Ledger.ChargeAll].
const Several = 3

// several returns charges of as many accounts.
func several(c Call) []spend.Request {
	list := make([]spend.Request, Several)
	for n := range list {
		list[n] = spend.Request{
			ID: fmt.Sprintf("%s/%d", c.ID, n), Account: fmt.Sprintf("%s %d", c.Places[0].Key, n), Amount: euros(3),
		}
	}
	return list
}

// ChargeAll charges several accounts, each by a request of its own. It returns the error of each.
func (l *Ledger) ChargeAll(ctx context.Context, c Call) []error {
	errs := make([]error, Several)
	for n, a := range l.b.ChargeAll(ctx, several(c)) {
		errs[n] = approved(a.Decision, a.Err)
	}
	return errs
}

// LookAll returns how often each request of ChargeAll was applied.
func (l *Ledger) LookAll(ctx context.Context, c Call) ([]int, error) {
	times := make([]int, Several)
	for n, r := range several(c) {
		if err := l.sound.Verify(ctx, r.Account); err != nil {
			return nil, err
		}
		for e, err := range l.sound.History(ctx, r.Account, nil) {
			if err != nil {
				return nil, err
			}
			if e.RequestID == r.ID {
				times[n]++
			}
		}
	}
	return times, nil
}

// moment is the lifetime of holds and IDs in the budget that [Ledger.Prune] prunes.
const moment = time.Millisecond

// brief is a budget whose holds and IDs hardly live.
var brief = spend.Budget{Name: "brief", Currency: currency, Rules: []spend.Rule{
	spend.Rolling("moment", euros(1_000_000_000), moment),
}}

func newBrief(l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(l, brief, &spend.Options{HoldTTL: moment, KeepIDs: moment})
}

// Expire prunes everything, and then leaves a hold that has expired.
func (l *Ledger) Expire(ctx context.Context, c Call) error {
	if _, err := l.brief.Prune(ctx); err != nil {
		return err
	}
	d, err := l.brief.Authorize(ctx, spend.Request{ID: c.ID, Account: "brief", Amount: euros(3)})
	time.Sleep(3 * moment) // on the server's clock
	return approved(d, err)
}

// Prune prunes the hold of Expire. It returns one answer about its end, and one about its ID.
func (l *Ledger) Prune(ctx context.Context) []error {
	done, err := l.brief.Prune(ctx)
	return []error{part(done.Expired, err), part(done.Requests, err)}
}

// part returns the answer about a part of a Prune that has to do one thing. The error of a Prune
// leaves the parts that its result counts.
func part(n int64, err error) error {
	switch {
	case n == 1:
		return nil
	case n != 0:
		return fmt.Errorf("pruned %d, want 1: %w", n, err)
	case err == nil:
		return errors.New("pruned nothing")
	}
	return err
}

// Pruned returns how often each part of a Prune was applied. It prunes the rest.
func (l *Ledger) Pruned(ctx context.Context) ([]int, error) {
	rest, err := l.brief.Prune(ctx)
	if err != nil {
		return nil, err
	}
	return []int{1 - int(rest.Expired), 1 - int(rest.Requests)}, nil
}
