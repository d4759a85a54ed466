package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// card is the only account of the scripted day.
const card = "card:7"

// day runs a scripted day of a card and prints it: partial captures, a tip, a refund, a merchant who
// presents late, a raise until tomorrow, and a card that is lost and found.
func day(ctx context.Context, out io.Writer) error {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return now }})
	cards, err := spend.New(l, budget(), nil)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &script{ctx: ctx, out: out, cards: cards}
	at := func(hour, minute int) {
		now = time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC)
		s.clock = now.Format("15:04")
	}
	ask := func(id string, cents int64, category string, ttl time.Duration) spend.Request {
		return spend.Request{
			ID: id, Account: card, Amount: spend.Money{Minor: cents, Currency: "EUR"}, TTL: ttl,
			Tags: map[string]string{"category": category},
		}
	}
	capture := func(id, hold string, cents int64, final, force bool) spend.CaptureRequest {
		return spend.CaptureRequest{
			ID: id, HoldID: hold, Amount: spend.Money{Minor: cents, Currency: "EUR"}, Final: final, Force: force,
		}
	}

	at(8, 0)
	s.tell("the bus holds a fare for two hours")(cards.Authorize(ctx, ask("bus", 2_90, "transit", 2*time.Hour)))
	at(8, 10)
	s.tell("coffee")(cards.Charge(ctx, ask("coffee", 3_20, "food", 0)))
	s.tell("the terminal sends the coffee again")(cards.Charge(ctx, ask("coffee", 3_20, "food", 0)))
	at(9, 0)
	s.tell("a hotel holds three nights")(cards.Authorize(ctx, ask("hotel", 360_00, "hotel", 4*24*time.Hour)))
	at(9, 30)
	s.tell("a flight does not fit beside it")(cards.Charge(ctx, ask("flight", 120_00, "travel", 0)))
	at(11, 0)
	s.tell("the hotel captures the first night")(cards.Capture(ctx, capture("night-1", "hotel", 120_00, false, false)))
	at(12, 40)
	s.tell("a restaurant holds the bill")(cards.Authorize(ctx, ask("lunch", 60_00, "food", 0)))
	at(13, 20)
	s.tell("and captures it with a tip")(cards.Capture(ctx, capture("lunch-tip", "lunch", 66_00, true, true)))
	at(14, 0)
	s.tell("a pump holds a full tank")(cards.Authorize(ctx, ask("fuel", 100_00, "fuel", 0)))
	at(14, 6)
	s.tell("and captures less")(cards.Capture(ctx, capture("fuel-end", "fuel", 48_70, true, false)))
	at(15, 0)
	s.tell("shoes")(cards.Charge(ctx, ask("shoes", 90_00, "shop", 0)))
	at(15, 30)
	s.tell("one of two pairs goes back")(cards.Refund(ctx, spend.RefundRequest{ID: "shoes-back", SpendID: "shoes", Amount: spend.Money{Minor: 40_00, Currency: "EUR"}}))
	at(16, 0)
	s.tell("the bus presents after its hold has ended")(cards.Capture(ctx, capture("bus-late", "bus", 2_90, true, false)))
	s.tell("the fare was travelled, so it is forced")(cards.Capture(ctx, capture("bus-forced", "bus", 2_90, true, true)))
	at(16, 30)
	s.tell("a casino")(cards.Charge(ctx, ask("chips", 1_00, "casino", 0)))
	at(17, 0)
	s.tell("a laptop is too large for one transaction")(cards.Charge(ctx, ask("laptop", 1200_00, "shop", 0)))
	until := now.Add(24 * time.Hour)
	s.tell("the bank raises the limits until tomorrow")(cards.SetLimits(ctx, spend.LimitsRequest{ID: "raise", Account: card, Limits: []spend.RuleLimit{
		{Rule: "month", Amount: euros(2500), Until: until}, {Rule: "single", Amount: euros(1500), Until: until},
	}}))
	at(17, 5)
	s.tell("the laptop")(cards.Charge(ctx, ask("laptop-2", 1200_00, "shop", 0)))
	at(19, 0)
	s.tell("the card is lost")(cards.Freeze(ctx, spend.FreezeRequest{ID: "lost", Account: card, Reason: "reported lost"}))
	at(19, 10)
	s.tell("somebody tries it")(cards.Authorize(ctx, ask("thief", 20_00, "shop", 0)))
	at(20, 0)
	s.tell("the hotel captures the second night")(cards.Capture(ctx, capture("night-2", "hotel", 120_00, false, false)))
	at(21, 0)
	s.tell("the card is found")(cards.Unfreeze(ctx, spend.FreezeRequest{ID: "found", Account: card, Reason: "found in the coat"}))
	s.tell("the guest leaves a night early")(cards.Void(ctx, spend.VoidRequest{ID: "checkout", HoldID: "hotel"}))
	at(22, 0)
	s.tell("a taxi")(cards.Charge(ctx, ask("taxi", 18_50, "transit", 0)))

	return errors.Join(s.end(), l.Close())
}

// script prints the answers of a day.
type script struct {
	ctx   context.Context
	out   io.Writer
	cards *spend.Budgets
	clock string
	err   error
}

// tell returns a function that prints one event with its answer.
func (s *script) tell(event string) func(spend.Decision, error) {
	return func(d spend.Decision, err error) {
		answer := "approved"
		switch {
		case errors.Is(err, spend.ErrHoldExpired):
			answer = "refused: " + spend.ErrHoldExpired.Error()
		case err != nil:
			s.err = errors.Join(s.err, fmt.Errorf("%s: %w", event, err))
			return
		case d.Replayed:
			answer = "approved before"
		case !d.Approved:
			var why []string
			for _, x := range d.Declines {
				switch {
				case x.Frozen != "":
					why = append(why, x.Frozen)
				case x.RetryAfter == brim.Never:
					why = append(why, x.Rule+", never")
				default:
					why = append(why, fmt.Sprintf("%s, would fit in %v", x.Rule, x.RetryAfter))
				}
			}
			answer = "declined: " + strings.Join(why, "; ")
		}
		s.print("%s  %-42s %s\n", s.clock, event, answer)
	}
}

func (s *script) print(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil {
		s.err = errors.Join(s.err, err)
	}
}

// end prints the figures of the card, and compares them with its entries.
func (s *script) end() error {
	list, err := s.cards.Remaining(s.ctx, card)
	if err != nil {
		return errors.Join(s.err, err)
	}
	for _, u := range list {
		s.print("%-10s  %s used, %s held, %v of %v left\n", u.Rule, u.Used.Decimal(), u.Held.Decimal(), u.Remaining, u.Limit)
	}
	return errors.Join(s.err, s.cards.Verify(s.ctx, card))
}
