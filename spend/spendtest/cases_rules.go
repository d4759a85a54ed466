package spendtest

import (
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

const days = 24 * time.Hour

// ruleCases are about the amounts that each rule allows.
func ruleCases() []testCase {
	return []testCase{
		{
			name:  "an example of 1,000.00 in 30 days",
			why:   "after 30.00 the rule declines 990.00, other accounts notice nothing, and 970.00 fits exactly",
			rules: []spend.Rule{spend.Rolling("month", money(1000_00), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(30_00)))
				s.no(30*days, "month")(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(990_00)}))
				s.no(30*days, "month")(b.Charge(ctx, s.request(990_00)))
				s.shows(b, 30_00, 0, 970_00)
				s.yes(b.AbleToAccept(ctx, spend.Request{Account: "other card", Amount: money(990_00)}))
				s.yes(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(970_00)}))
				s.yes(b.Charge(ctx, s.request(970_00)))
				s.shows(b, 1000_00, 0, 0)
			},
		},
		{
			name:  "the same example with a leaky bucket",
			why:   "970.00 fits before anything has leaked, and 990.00 fits once 20.00 has leaked",
			rules: []spend.Rule{spend.Leaky("month", money(1000_00), 100_000*time.Second)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(30_00)))
				s.no(2000*time.Second, "month")(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(990_00)}))
				s.no(2000*time.Second, "month")(b.Charge(ctx, s.request(990_00)))
				s.yes(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(970_00)}))
				s.advance(2000 * time.Second)
				s.yes(b.Charge(ctx, s.request(990_00)))
				s.shows(b, 1000_00, 0, 0)
			},
		},
		{
			name:  "a window ends to the microsecond",
			why:   "the window (now - window, now] does not contain a spend dated now - window",
			rules: []spend.Rule{spend.Rolling("hour", money(100), time.Hour)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100)))
				s.advance(time.Hour - time.Microsecond)
				s.no(time.Microsecond, "hour")(b.Charge(ctx, s.request(1)))
				s.advance(time.Microsecond)
				s.yes(b.Charge(ctx, s.request(100)))
			},
		},
		{
			name:  "a leaky rule rounds against the spender",
			why:   "used rounds up and remaining rounds down, so the remaining amount can be spent",
			rules: []spend.Rule{spend.Leaky("hour", money(3600), time.Hour)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(10)))
				s.advance(500 * time.Millisecond)
				s.shows(b, 10, 0, 3590)
				s.advance(750 * time.Millisecond)
				u := s.shows(b, 9, 0, 3591)
				if want := s.clock.now().Add(750 * time.Millisecond); !u.GrowsAt.Equal(want) {
					s.Errorf("GrowsAt is %v; want %v", u.GrowsAt, want.UTC())
				}
				s.yes(b.Charge(ctx, s.request(3591)))
			},
		},
		{
			name:  "a leaky rule lets twice its amount through",
			why:   "the documentation warns of it",
			rules: []spend.Rule{spend.Leaky("hour", money(3600), time.Hour)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(3600)))
				for range 60 {
					s.advance(time.Minute)
					s.yes(b.Charge(ctx, s.request(60)))
				}
			},
		},
		{
			name: "a decline names every rule that refused",
			why:  "the caller must learn of every obstacle, and when the last of them is gone",
			rules: []spend.Rule{
				spend.Rolling("hour", money(100), time.Hour), spend.PerTransaction("single", money(1000)),
				spend.Lifetime("ever", money(5000)), spend.Count("often", 1, 2*time.Hour),
			},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(60)))
				s.no(2*time.Hour, "hour", "often")(b.Charge(ctx, s.request(50)))
				s.no(store.Never, "hour", "single", "often")(b.Charge(ctx, s.request(1001)))
				s.shows(b, 0, 0, 1000, "single")
				s.shows(b, 60, 0, 4940, "ever")
				s.shows(b, 1, 0, 0, "often")
			},
		},
		{
			name: "a filter counts matching spends only",
			why:  "a rule about travel must ignore groceries and requests without tags",
			rules: []spend.Rule{
				spend.Rolling("travel", money(100), time.Hour).Matching("category", "hotel", "flight").Matching("country", "DE"),
				spend.Rolling("all", money(1000), time.Hour),
			},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100, "category", "hotel", "country", "DE")))
				s.no(time.Hour, "travel")(b.Charge(ctx, s.request(1, "category", "flight", "country", "DE")))
				s.yes(b.Charge(ctx, s.request(200, "category", "flight", "country", "FR")))
				s.yes(b.Charge(ctx, s.request(200)))
				s.shows(b, 100, 0, 0, "travel")
				s.shows(b, 500, 0, 500, "all")
			},
		},
		{
			name:  "a count ignores voided and expired spends",
			why:   "no money was spent; a refunded spend counts",
			rules: []spend.Rule{spend.Count("often", 2, time.Hour)},
			run: func(s *fixture, b *spend.Budgets) {
				first, second := s.request(1), s.request(1)
				second.TTL = time.Minute
				s.yes(b.Authorize(ctx, first))
				s.yes(b.Authorize(ctx, second))
				s.no(time.Minute, "often")(b.Charge(ctx, s.request(1)))
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: first.ID}))
				third := s.request(1)
				s.yes(b.Charge(ctx, third))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: third.ID, Amount: money(1)}))
				s.no(time.Minute, "often")(b.Charge(ctx, s.request(1)))
				s.advance(time.Minute)
				s.yes(b.Charge(ctx, s.request(1)))
				s.shows(b, 2, 0, 0)
			},
		},
		{
			name:  "a calendar day resets at local midnight",
			why:   "people count days in their own zone, not in UTC",
			rules: []spend.Rule{spend.Calendar("day", money(100), spend.Day, time.FixedZone("east", 3*3600))},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100)))
				s.no(9*time.Hour, "day")(b.Charge(ctx, s.request(1)))
				s.advance(9 * time.Hour)
				s.yes(b.Charge(ctx, s.request(100)))
			},
		},
		{
			name:  "time never runs back",
			why:   "a clock that is set back must not bring entries into a window again, or subtract them twice",
			rules: []spend.Rule{spend.Rolling("hour", money(100), time.Hour)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100)))
				at := s.yes(b.Record(ctx, s.request(1))).At
				s.advance(-30 * time.Minute)
				d, err := b.Charge(ctx, s.request(1))
				if err != nil || d.Approved || !d.At.Equal(at) {
					s.Errorf("a charge after the clock was set back: %+v, %v; want a decline at %v", d, err, at)
				}
				s.advance(30*time.Minute + time.Hour)
				s.yes(b.Charge(ctx, s.request(100)))
			},
		},
	}
}
