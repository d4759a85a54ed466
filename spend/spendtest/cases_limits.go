package spendtest

import (
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// limit sets one limit of the account "card".
func (s *fixture) limit(b *spend.Budgets, l spend.RuleLimit) {
	s.Helper()
	s.yes(b.SetLimits(ctx, spend.LimitsRequest{ID: s.id(), Account: "card", Limits: []spend.RuleLimit{l}}))
}

func limitCases() []testCase {
	daily := spend.Rolling("daily", money(500), days).AtMost(money(5000))
	return []testCase{
		{
			name:  "limits of an account",
			why:   "an account's own amount takes the place of the budget's, and the used amount stays",
			rules: []spend.Rule{daily, spend.Count("often", 3, days), spend.PerTransaction("single", money(400)).AtMost(money(4000))},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(300)))
				s.no(days, "daily")(b.Charge(ctx, s.request(201)))
				s.limit(b, spend.RuleLimit{Rule: "daily", Amount: money(1000)})
				s.shows(b, 300, 0, 700)
				s.yes(b.Charge(ctx, s.request(201)))
				s.limit(b, spend.RuleLimit{Rule: "often", Amount: spend.Money{Minor: 2}})
				s.no(days, "often")(b.Charge(ctx, s.request(1)))
				s.limit(b, spend.RuleLimit{Rule: "often", Default: true})
				s.limit(b, spend.RuleLimit{Rule: "daily", Amount: money(0)}) // nothing passes
				s.no(store.Never, "daily")(b.Charge(ctx, s.request(1)))
				s.shows(b, 501, 0, -501)
				s.limit(b, spend.RuleLimit{Rule: "daily", Default: true})
				s.shows(b, 501, 0, -1)
				other := s.request(500)
				other.Account = "other"
				s.no(store.Never, "single")(b.Charge(ctx, other))
				s.yes(b.SetLimits(ctx, spend.LimitsRequest{ID: s.id(), Account: "other", Limits: []spend.RuleLimit{
					{Rule: "single", Amount: money(4000)}, {Rule: "daily", Amount: money(5000)},
				}}))
				other.ID, other.Amount = s.id(), money(4000)
				s.yes(b.Charge(ctx, other))
				if list, err := b.Limits(ctx, "other"); err != nil || len(list) != 2 || list[0].Amount != money(5000) || list[1].Amount != money(4000) {
					s.Errorf("Limits: %+v, %v", list, err)
				}
				// The next limit that the budget lowers bounds the account's own.
				lower := s.budget("limits of an account", spend.Rolling("daily", money(100), days).AtMost(money(200)))
				s.limit(b, spend.RuleLimit{Rule: "daily", Amount: money(900)})
				s.shows(lower, 501, 0, 200-501)
				s.shows(b, 501, 0, 900-501, "daily")
			},
		},
		{
			name:  "a raise that ends",
			why:   "the decision's clock ends it, and a wait beyond its end counts by the limit then",
			rules: []spend.Rule{daily},
			run: func(s *fixture, b *spend.Budgets) {
				raised := spend.RuleLimit{Rule: "daily", Amount: money(2000), Until: s.clock.now().Add(10 * time.Hour)}
				s.limit(b, raised)
				s.yes(b.Charge(ctx, s.request(400)))
				s.advance(time.Hour)
				s.yes(b.Charge(ctx, s.request(1600)))
				// By the limit of 500 then, 101 fit when both have left, and 400 fit no sooner.
				s.no(days, "daily")(b.Charge(ctx, s.request(101)))
				s.no(store.Never, "daily")(b.Charge(ctx, s.request(501)))
				s.advance(9*time.Hour - time.Microsecond)
				s.shows(b, 2000, 0, 0)
				s.advance(time.Microsecond)
				s.shows(b, 2000, 0, -1500)
				if list, err := b.Limits(ctx, "card"); err != nil || len(list) != 0 {
					s.Errorf("Limits after the end: %+v, %v; want none", list, err)
				}
				s.limit(b, spend.RuleLimit{Rule: "daily", Amount: money(0), Until: s.clock.now().Add(30 * time.Hour)})
				s.advance(20 * time.Hour)
				u := s.shows(b, 0, 0, 0)
				if want := s.clock.now().Add(10 * time.Hour); !u.GrowsAt.Equal(want) {
					s.Errorf("GrowsAt is %v; the limit of zero ends at %v", u.GrowsAt, want)
				}
				s.no(10*time.Hour, "daily")(b.Charge(ctx, s.request(500)))
				s.no(store.Never, "daily")(b.Charge(ctx, s.request(501)))
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "a raise that ends before another rule has room",
			why:   "the wait of the decision is until all rules have room at the same time",
			rules: []spend.Rule{daily, spend.Rolling("hourly", money(700), time.Hour), spend.Rolling("minutely", money(600), time.Minute).AtMost(money(700))},
			run: func(s *fixture, b *spend.Budgets) {
				raise := func(rule string, amount int64, d time.Duration) {
					s.Helper()
					s.limit(b, spend.RuleLimit{Rule: rule, Amount: money(amount), Until: s.clock.now().Add(d)})
				}
				raise("daily", 2000, 30*time.Minute)
				s.yes(b.Charge(ctx, s.request(450)))
				s.advance(10 * time.Minute)
				// The hourly rule has room in 50 minutes. The daily rule then has none.
				declined := s.request(300)
				d, err := b.Charge(ctx, declined)
				s.no(days-10*time.Minute, "hourly")(d, err)
				if d.Declines[0].RetryAfter != 50*time.Minute {
					s.Errorf("RetryAfter of the hourly rule is %v; want 50 minutes", d.Declines[0].RetryAfter)
				}
				s.no(days-10*time.Minute, "hourly")(b.AbleToAccept(ctx, s.request(300)))
				// The daily rule never has room for so much once its raise has ended.
				s.no(store.Never, "hourly")(b.Charge(ctx, s.request(560)))
				// The minutely rule has room in a minute, and never once its raise has ended.
				raise("daily", 2000, 2*time.Hour)
				raise("minutely", 700, 30*time.Minute)
				s.yes(b.Charge(ctx, s.request(50)))
				d, err = b.Charge(ctx, s.request(660))
				s.no(store.Never, "hourly", "minutely")(d, err)
				if d.Declines[0].RetryAfter != time.Hour || d.Declines[1].RetryAfter != time.Minute {
					s.Errorf("RetryAfter is %v and %v; want an hour and a minute", d.Declines[0].RetryAfter, d.Declines[1].RetryAfter)
				}
				s.no(50*time.Minute, "hourly")(b.Charge(ctx, s.request(600)))
				s.advance(50 * time.Minute)
				s.yes(b.Charge(ctx, s.request(600)))
				if d, err = b.Charge(ctx, declined); err != nil || !d.Replayed || d.RetryAfter != days-10*time.Minute {
					s.Errorf("the decline sent again: %+v, %v; want the first answer", d, err)
				}
			},
		},
		{
			name:  "limits that are not allowed",
			why:   "a request with a mistake changes nothing, and its ID stays free",
			rules: []spend.Rule{daily, spend.Count("often", 3, days)},
			run: func(s *fixture, b *spend.Budgets) {
				set := func(want error, limits ...spend.RuleLimit) {
					s.Helper()
					s.fails(want)(b.SetLimits(ctx, spend.LimitsRequest{ID: "same", Account: "card", Limits: limits}))
				}
				fine := spend.RuleLimit{Rule: "daily", Amount: money(7)}
				set(spend.ErrRequest)
				set(spend.ErrRequest, fine, fine)
				set(spend.ErrRequest, spend.RuleLimit{Rule: "daily", Amount: money(7), Default: true})
				set(spend.ErrRequest, spend.RuleLimit{Rule: ""})
				set(spend.ErrRequest, spend.RuleLimit{Rule: "daily", Amount: money(7), Until: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})
				set(spend.ErrBudget, fine, spend.RuleLimit{Rule: "weekly", Amount: money(7)})
				set(spend.ErrBudget, spend.RuleLimit{Rule: "daily", Amount: money(5001)})
				set(spend.ErrBudget, spend.RuleLimit{Rule: "often", Amount: spend.Money{Minor: 4}})
				set(spend.ErrCurrency, spend.RuleLimit{Rule: "often", Amount: money(1)})
				set(spend.ErrCurrency, spend.RuleLimit{Rule: "daily", Amount: spend.Money{Minor: 7, Currency: "USD"}})
				set(spend.ErrAmount, spend.RuleLimit{Rule: "daily", Amount: money(-1)})
				s.shows(b, 0, 0, 500)
				s.yes(b.SetLimits(ctx, spend.LimitsRequest{ID: "same", Account: "card", Limits: []spend.RuleLimit{fine}}))
				s.shows(b, 0, 0, 7)
				s.sound(b, 1)
			},
		},
		{
			name:  "a frozen account",
			why:   "it declines, also together with others; it accounts for money that has moved, and keeps holds",
			rules: []spend.Rule{daily},
			run: func(s *fixture, b *spend.Budgets) {
				hold, spent := s.request(100), s.request(50)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Charge(ctx, spent))
				freeze := spend.FreezeRequest{ID: s.id(), Account: "card", Reason: "lost"}
				s.yes(b.Freeze(ctx, freeze))
				if d := s.yes(b.Freeze(ctx, freeze)); !d.Replayed {
					s.Error("the freeze was sent again and is no replay")
				}
				both := s.request(1)
				both.Account, both.Also = "other", []spend.Account{{Budget: "a frozen account", Name: "card"}}
				for i, call := range []func() (spend.Decision, error){
					func() (spend.Decision, error) { return b.Charge(ctx, s.request(1)) },
					func() (spend.Decision, error) { return b.Authorize(ctx, s.request(1)) },
					func() (spend.Decision, error) { return b.AbleToAccept(ctx, s.request(1)) },
					func() (spend.Decision, error) { return b.Charge(ctx, both) },
					func() (spend.Decision, error) {
						return b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)})
					},
					func() (spend.Decision, error) {
						return b.UpTo(ctx, spend.UpToRequest{Request: s.request(5), Least: money(1)})
					},
				} {
					d, err := call()
					if err != nil || d.Approved || len(d.Declines) != 1 || d.RetryAfter != store.Never ||
						d.Declines[0].Frozen != "lost" || d.Declines[0].Account.Name != "card" {
						s.Errorf("call %d: %+v, %v; want a decline because the card is lost", i, d, err)
					}
				}
				s.yes(b.Record(ctx, s.request(10)))
				s.yes(b.Credit(ctx, s.request(20)))
				s.yes(b.Extend(ctx, spend.ExtendRequest{ID: s.id(), HoldID: hold.ID, TTL: 3 * time.Hour}))
				s.advance(2 * time.Hour)
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(30)}))
				s.yes(b.Decrease(ctx, spend.DecreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(20)}))
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: spent.ID, Amount: money(5)}))
				s.shows(b, 85, 0, 415)
				s.yes(b.Unfreeze(ctx, spend.FreezeRequest{ID: s.id(), Account: "card", Reason: "found"}))
				s.yes(b.Charge(ctx, s.request(1)))
				s.fails(spend.ErrRequest)(b.Freeze(ctx, spend.FreezeRequest{ID: s.id(), Account: "card"}))
				s.fails(spend.ErrIDReused)(b.Unfreeze(ctx, freeze))
				var kinds []string
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil {
						s.Fatal(err)
					}
					if e.Kind == "freeze" || e.Kind == "unfreeze" {
						kinds = append(kinds, e.Kind+" "+e.Tags["reason"])
					}
				}
				if want := []string{"unfreeze found", "freeze lost"}; !slices.Equal(kinds, want) {
					s.Errorf("the entries are %q; want %q", kinds, want)
				}
			},
		},
		{
			name:  "a hold that shrinks and lives on",
			why:   "a decrease takes the newest part, and an extension moves the expiry and no date",
			rules: []spend.Rule{daily},
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(100)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				s.advance(time.Minute)
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(50)}))
				decrease := func(n int64) spend.DecreaseRequest {
					return spend.DecreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(n)}
				}
				s.fails(spend.ErrNotHeld)(b.Decrease(ctx, decrease(151)))
				s.yes(b.Decrease(ctx, decrease(60)))
				s.shows(b, 0, 90, 410)
				extend := spend.ExtendRequest{ID: s.id(), HoldID: hold.ID, TTL: 30 * time.Hour}
				s.yes(b.Extend(ctx, extend))
				s.advance(time.Minute)
				if d := s.yes(b.Extend(ctx, extend)); !d.Replayed {
					s.Error("the extension was sent again and is no replay")
				}
				s.yes(b.Extend(ctx, spend.ExtendRequest{ID: s.id(), HoldID: hold.ID, TTL: time.Minute})) // shorter: no effect
				s.advance(23 * time.Hour)
				s.shows(b, 0, 90, 410)
				s.advance(time.Hour - 2*time.Minute) // the window passes the first part
				s.shows(b, 0, 0, 500)
				s.advance(6 * time.Hour)
				if list, err := b.Holds(ctx, "card"); err != nil || len(list) != 1 || list[0].Held != money(90) {
					s.Errorf("Holds: %+v, %v; want one with 90", list, err)
				}
				s.advance(time.Minute) // 30 hours after the extension
				if list, err := b.Holds(ctx, "card"); err != nil || len(list) != 0 {
					s.Errorf("Holds after the expiry: %+v, %v", list, err)
				}
				s.fails(spend.ErrHoldExpired)(b.Extend(ctx, spend.ExtendRequest{ID: s.id(), HoldID: hold.ID}))
				s.fails(spend.ErrHoldExpired)(b.Decrease(ctx, decrease(1)))
				all := s.request(40)
				s.yes(b.Authorize(ctx, all))
				hold.ID = all.ID
				s.yes(b.Decrease(ctx, decrease(40)))
				s.fails(spend.ErrHoldEnded)(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: all.ID, Amount: money(1)}))
				if x, err := b.Get(ctx, all.ID); err != nil || x.Spend.State != "voided" {
					s.Errorf("Get: %+v, %v; want a voided hold", x, err)
				}
				if _, err := b.Get(ctx, "nobody sent this"); !errors.Is(err, spend.ErrUnknownSpend) {
					s.Errorf("Get of an unknown ID: %v; want ErrUnknownSpend", err)
				}
			},
		},
		{
			name:  "as much as fits",
			why:   "the largest amount that all rules approve, and a replay of it whatever fits then",
			rules: []spend.Rule{daily, spend.PerTransaction("single", money(400)), spend.Leaky("leaky", money(450), days)},
			run: func(s *fixture, b *spend.Budgets) {
				first := spend.UpToRequest{Request: s.request(1000), Least: money(1)}
				if d := s.yes(b.UpTo(ctx, first)); d.Amount != money(400) {
					s.Errorf("%v fits, want the 400 of a transaction", d.Amount)
				}
				second := spend.UpToRequest{Request: s.request(1000), Least: money(50), Hold: true}
				if d := s.yes(b.UpTo(ctx, second)); d.Amount != money(50) {
					s.Errorf("%v fits, want the 50 that are left in the bucket", d.Amount)
				}
				d, err := b.UpTo(ctx, spend.UpToRequest{Request: s.request(1000), Least: money(51)})
				if err != nil || d.Approved || d.Amount != (spend.Money{}) {
					s.Errorf("%+v, %v; want a decline", d, err)
				}
				if d := s.yes(b.UpTo(ctx, first)); !d.Replayed || d.Amount != money(400) {
					s.Errorf("%+v; want the first answer", d)
				}
				first.Least = money(2)
				s.fails(spend.ErrIDReused)(b.UpTo(ctx, first))
				s.fails(spend.ErrAmount)(b.UpTo(ctx, spend.UpToRequest{Request: s.request(5), Least: money(6)}))
				s.fails(spend.ErrAmount)(b.UpTo(ctx, spend.UpToRequest{Request: s.request(5)}))
				s.shows(b, 400, 50, 50)
			},
		},
		{
			name: "blocked categories",
			why:  "a rule that allows nothing blocks what matches, or all that does not",
			rules: []spend.Rule{
				daily,
				spend.PerTransaction("casinos", money(0)).Matching("mcc", "7995"),
				spend.PerTransaction("at home", money(0)).NotMatching("country", "DE", "AT"),
			},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(1, "mcc", "5411", "country", "DE")))
				s.yes(b.Charge(ctx, s.request(1, "country", "AT")))
				s.no(store.Never, "casinos")(b.Charge(ctx, s.request(1, "mcc", "7995", "country", "DE")))
				s.no(store.Never, "at home")(b.Charge(ctx, s.request(1, "mcc", "5411", "country", "FR")))
				s.no(store.Never, "casinos", "at home")(b.Charge(ctx, s.request(1, "mcc", "7995")))
				s.shows(b, 2, 0, 498)
			},
		},
	}
}
