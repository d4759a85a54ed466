package cards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/spend"
)

// Report is the result of a replay.
type Report struct {
	Events   int64            `json:"events"`
	ByKind   map[string]int64 `json:"by_kind"`
	Approved int64            `json:"approved"` // of the requests that can be declined
	Declined int64            `json:"declined"`
	Replayed int64            `json:"replayed"`     // retries, which got their first answer again
	Failed   map[string]int64 `json:"failed"`       // contradictory requests, by reason
	ByRule   map[string]int64 `json:"declined_by"`  // a decline may count for several rules
	Spent    spend.Money      `json:"spent"`        // without the refunds
	Accounts int64            `json:"accounts"`     // all of them verified against their entries
	Unparsed int64            `json:"unparsed"`     // lines that are not events
	Bad      []string         `json:"bad"`          // the first of these lines
	Top      []Top            `json:"top_declined"` // accounts
	Seconds  float64          `json:"seconds"`
}

// Top is an account with declined requests.
type Top struct {
	Account  string `json:"account"`
	Declined int64  `json:"declined"`
	Approved int64  `json:"approved"`
}

// Replay decides the events of a log in order, each at its own time. top is the number of the
// most declined accounts in the report. If ctx ends, the error is its cause.
func Replay(ctx context.Context, r *Reader, b *spend.Budgets, clock *simulate.Clock, top int) (*Report, error) {
	rep := &Report{
		ByKind: map[string]int64{},
		Failed: map[string]int64{},
		ByRule: map[string]int64{},
		Bad:    []string{},
		Top:    []Top{},
	}
	accounts := make(map[string]*Top)
	owner := make(map[string]string) // accounts by request ID
	start := time.Now()
	for {
		e, _, err := r.Read()
		if ctx.Err() != nil { // the report covers the part that was decided
			return rep, cmp.Or(rep.end(context.WithoutCancel(ctx), b, accounts, top, start), context.Cause(ctx))
		}
		var line *LineError
		switch {
		case err == io.EOF:
			if rep.Events == 0 {
				return rep, fmt.Errorf("%w: no line in it is an event", ErrFormat)
			}
			return rep, rep.end(ctx, b, accounts, top, start)
		case errors.As(err, &line):
			rep.bad(line)
			continue
		case err != nil:
			return rep, err
		}
		rep.Events++
		rep.ByKind[e.Kind]++
		clock.Set(e.Time)
		d, err := send(ctx, b, &e)
		if err != nil {
			reason := reasonOf(err)
			if reason == "" {
				return rep, err
			}
			rep.Failed[reason]++
			continue
		}
		account := e.Account
		if account == "" {
			account = owner[e.Ref]
		} else {
			owner[e.ID] = account
		}
		if accounts[account] == nil {
			accounts[account] = &Top{Account: account}
		}
		rep.count(&e, d, accounts[account])
	}
}

// send sends the request of the event to the budget.
func send(ctx context.Context, b *spend.Budgets, e *Event) (spend.Decision, error) {
	amount, err := e.money()
	if err != nil {
		return spend.Decision{}, err
	}
	request := spend.Request{ID: e.ID, Account: e.Account, Amount: amount, Tags: e.Tags}
	switch e.Kind {
	case "spend":
		return b.Charge(ctx, request)
	case "authorize":
		return b.Authorize(ctx, request)
	case "record":
		return b.Record(ctx, request)
	case "credit":
		return b.Credit(ctx, request)
	case "increase":
		return b.Increase(ctx, spend.IncreaseRequest{ID: e.ID, HoldID: e.Ref, Amount: amount})
	case "capture":
		return b.Capture(ctx,
			spend.CaptureRequest{ID: e.ID, HoldID: e.Ref, Amount: amount, Final: e.Final, Force: e.Force})
	case "void":
		return b.Void(ctx, spend.VoidRequest{ID: e.ID, HoldID: e.Ref})
	case "refund":
		return b.Refund(ctx, spend.RefundRequest{ID: e.ID, SpendID: e.Ref, Amount: amount})
	}
	return spend.Decision{}, errKind
}

var errKind = errors.New("unknown kind")

// reasonOf returns the reason of an error that the event has caused, and "" for other errors,
// which end the replay.
func reasonOf(err error) string {
	for _, known := range []error{
		errKind, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrNotHeld, spend.ErrNotCaptured,
		spend.ErrIDReused, spend.ErrAmount, spend.ErrCurrency, spend.ErrRequest,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}

// count adds a decision to the report.
func (rep *Report) count(e *Event, d spend.Decision, account *Top) {
	switch {
	case d.Replayed:
		rep.Replayed++
	case !d.Approved:
		rep.Declined++
		account.Declined++
		for _, x := range d.Declines {
			rep.ByRule[x.Rule]++
		}
	case e.Kind == "spend" || e.Kind == "authorize" || e.Kind == "increase":
		rep.Approved++
		account.Approved++
	}
}

// maxBad is the number of bad lines that a report names.
const maxBad = 5

func (rep *Report) bad(err *LineError) {
	rep.Unparsed++
	if len(rep.Bad) < maxBad {
		rep.Bad = append(rep.Bad, err.Error())
	}
}

// end verifies all accounts against their entries, and adds up the money spent.
func (rep *Report) end(
	ctx context.Context, b *spend.Budgets, accounts map[string]*Top, top int, start time.Time,
) error {
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		if name == "" {
			continue
		}
		if err := b.Verify(ctx, name); err != nil {
			return err
		}
		rep.Accounts++
		for e, err := range b.History(ctx, name, nil) {
			if err != nil {
				return err
			}
			if rep.Spent.Currency == "" {
				rep.Spent.Currency = e.Used.Currency
			}
			sum, err := rep.Spent.Add(e.Used)
			if err != nil {
				return err
			}
			rep.Spent = sum
		}
		if accounts[name].Declined > 0 {
			rep.Top = append(rep.Top, *accounts[name])
		}
	}
	slices.SortStableFunc(rep.Top, func(a, b Top) int {
		return cmp.Or(cmp.Compare(b.Declined, a.Declined), cmp.Compare(a.Account, b.Account))
	})
	rep.Top = rep.Top[:min(top, len(rep.Top))]
	rep.Seconds = time.Since(start).Seconds()
	return nil
}
