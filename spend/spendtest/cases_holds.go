package spendtest

import (
	"fmt"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// holdCases are about holds: captures, voids, expiries and refunds.
func holdCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name: "held money counts", why: "reserved money cannot be spent by others", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Authorize(ctx, s.request(600)))
				s.shows(b, 0, 600, 400)
				s.no(7*days, "month")(b.Charge(ctx, s.request(401)))
				s.yes(b.Charge(ctx, s.request(400)))
			},
		},
		{
			name:  "captures in parts",
			why:   "several captures may take a hold until one is Final, which releases the rest",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(600)
				s.yes(b.Authorize(ctx, hold))
				capture := func(n int64, final bool) (spend.Decision, error) {
					return b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(n), Final: final})
				}
				s.yes(capture(100, false))
				s.shows(b, 100, 500, 400)
				s.fails(spend.ErrNotHeld)(capture(501, false))
				s.yes(capture(200, true))
				s.shows(b, 300, 0, 700)
				s.fails(spend.ErrHoldEnded)(capture(1, false))
				s.fails(spend.ErrHoldEnded)(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
			},
		},
		{
			name: "a hold expires without a background job",
			why:  "the next decision judges the expiry, once",
			rules: []spend.Rule{
				spend.Rolling("month", money(1000), 30*days),
				spend.Leaky("leaky", money(1024), 1024*time.Second),
			},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(1000)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				s.advance(time.Hour - time.Microsecond)
				s.no(time.Microsecond, "month", "leaky")(b.Charge(ctx, s.request(100)))
				s.advance(time.Microsecond)
				s.shows(b, 0, 0, 1000, "month")
				s.shows(b, 0, 0, 1024, "leaky")
				s.fails(spend.ErrHoldExpired)(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.fails(spend.ErrHoldExpired)(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
				s.fails(spend.ErrHoldExpired)(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.yes(b.Charge(ctx, s.request(900)))
				s.shows(b, 900, 0, 100, "month")
				ends := 0
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil {
						s.Fatal(err)
					}
					if e.Kind == "expire" {
						ends++
					}
				}
				if ends != 1 {
					s.Errorf("the ledger has %d entries for the expiry; want 1", ends)
				}
			},
		},
		{
			name:  "a late capture can be forced",
			why:   "the merchant has the money already, so the capture is a record dated now and never refused",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days), spend.Count("often", 5, 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(500)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				s.advance(2 * time.Hour)
				s.shows(b, 0, 0, 5, "often")
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1500), Force: true}))
				s.shows(b, 1500, 0, -500, "month")
				s.shows(b, 1, 0, 4, "often")
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1), Force: true}))
				s.shows(b, 1, 0, 4, "often")
				s.fails(spend.ErrHoldEnded)(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.advance(30*days - 2*time.Hour)
				s.shows(b, 1501, 0, -501, "month")
				s.advance(2 * time.Hour)
				s.shows(b, 0, 0, 1000, "month")
			},
		},
		{
			name:  "a tip can be forced",
			why:   "Force takes more than was held, and the excess counts from now",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(900)
				hold.TTL = 20 * days
				s.yes(b.Authorize(ctx, hold))
				s.advance(10 * days)
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1100), Force: true}))
				s.shows(b, 1100, 0, -100)
				s.advance(20 * days)
				s.shows(b, 200, 0, 800)
				s.advance(10 * days)
				s.shows(b, 0, 0, 1000)
			},
		},
		{
			name:  "a capture moves nothing to another day",
			why:   "a spend counts from its authorization, and its refunds count at the same date",
			rules: []spend.Rule{spend.Calendar("day", money(1000), spend.Day, time.UTC)},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(900)
				s.yes(b.Authorize(ctx, hold))
				s.advance(1 * days)
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(900)}))
				s.shows(b, 0, 0, 1000)
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: money(900)}))
				s.shows(b, 0, 0, 1000)
			},
		},
		{
			name:  "an increase is checked and dated by itself",
			why:   "it is new money, so every rule must agree; a PerTransaction rule judges the total",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days), spend.PerTransaction("single", money(700))},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(400)
				hold.TTL = 60 * days
				s.yes(b.Authorize(ctx, hold))
				increase := func(n int64) (spend.Decision, error) {
					return b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(n)})
				}
				s.no(store.Never, "single")(increase(301))
				s.advance(10 * days)
				s.yes(increase(300))
				s.no(store.Never, "single")(increase(1))
				s.yes(b.Charge(ctx, s.request(300)))
				s.advance(20 * days)
				s.shows(b, 300, 300, 400, "month")
				// The capture takes the oldest part, so the increase stays held.
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(400)}))
				s.shows(b, 300, 300, 400, "month")
			},
		},
		{
			name:  "captured money begins to leak",
			why:   "held money does not leak, and captured money leaks from its capture",
			rules: []spend.Rule{spend.Leaky("leaky", money(1024), 1024*time.Second)},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(1000)
				s.yes(b.Authorize(ctx, hold))
				s.advance(time.Hour)
				s.shows(b, 0, 1000, 24)
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(600)}))
				s.advance(100 * time.Second)
				s.shows(b, 500, 400, 124)
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: money(600)}))
				s.shows(b, 0, 400, 624)
			},
		},
		{
			name: "no more is refunded than was captured", why: "taken money is given back once", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(500)
				s.yes(b.Authorize(ctx, hold))
				refund := func(id string, n int64) (spend.Decision, error) {
					return b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: id, Amount: money(n)})
				}
				s.fails(spend.ErrNotCaptured)(refund(hold.ID, 1))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(300), Final: true}))
				s.yes(refund(hold.ID, 200))
				s.fails(spend.ErrNotCaptured)(refund(hold.ID, 101))
				s.yes(refund(hold.ID, 100))
				s.shows(b, 0, 0, 1000)
				record := s.request(2000)
				s.yes(b.Record(ctx, record))
				s.shows(b, 2000, 0, -1000)
				s.yes(refund(record.ID, 1500))
				s.shows(b, 500, 0, 500)
				s.fails(spend.ErrUnknownSpend)(refund("an unknown ID", 1))
			},
		},
		{
			name: "either all accounts are charged or none",
			why:  "a spend of a team's card counts for the card, the team and the company", rules: window,
			run: func(s *fixture, _ *spend.Budgets) {
				team := spend.Budget{
					Name: "team-" + fmt.Sprint(s.clock.us.Load()), Currency: "EUR",
					Rules: []spend.Rule{spend.Rolling("team", money(500), 30*days)},
				}
				card := spend.Budget{
					Name: "card-" + team.Name, Currency: "EUR",
					Rules: []spend.Rule{spend.Rolling("card", money(1000), 30*days)},
				}
				b, err := spend.New(s.l, card, &spend.Options{Budgets: []spend.Budget{team}})
				if err != nil {
					s.Fatal(err)
				}
				teams, err := b.ForBudget(team.Name)
				if err != nil {
					s.Fatal(err)
				}
				with := func(n int64) spend.Request {
					r := s.request(n)
					r.Also = []spend.Account{{Budget: team.Name, Name: "card"}}
					r.TTL = time.Hour
					return r
				}
				s.yes(b.Charge(ctx, with(100)))
				s.no(30*days, "team")(b.Charge(ctx, with(401)))
				s.shows(b, 100, 0, 900)
				s.shows(teams, 100, 0, 400)
				hold := with(400)
				s.yes(b.Authorize(ctx, hold))
				s.shows(teams, 100, 400, 0)
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(150)}))
				s.shows(teams, 250, 250, 0)
				// Each account ends its own share of the hold at its next decision.
				s.advance(2 * time.Hour)
				s.yes(b.Charge(ctx, s.request(1)))
				s.shows(b, 251, 0, 749)
				s.shows(teams, 250, 0, 250)
				s.yes(teams.Charge(ctx, s.request(250)))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: money(150)}))
				s.shows(teams, 350, 0, 150)
			},
		},
	}
}
