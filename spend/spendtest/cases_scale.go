package spendtest

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// scaleCases are about budgets that count in units finer than the minor unit of their currency.
func scaleCases() []testCase {
	fine := func(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR:8"} } // 10^-6 cents
	budget := func(s *fixture, rules ...spend.Rule) *spend.Budgets {
		s.Helper()
		b, err := spend.New(s.l, spend.Budget{Name: s.budgetName(), Currency: "EUR:8", Rules: rules}, nil)
		if err != nil {
			s.Fatal(err)
		}
		return b
	}
	const cent = 1_000_000
	rules := []spend.Rule{
		spend.Rolling("day", money(10_00), days), spend.Leaky("smooth", money(20_00), days),
		spend.PerTransaction("single", fine(5*cent*100)), spend.Count("often", 9, days),
	}
	return []testCase{
		{
			name: "a filter by amount in another scale", rules: rules[:1],
			why: "the amounts of a filter are converted as the limit is, and the caller's rule stays as it was",
			run: func(s *fixture, _ *spend.Budgets) {
				large := spend.Rolling("large", money(5_00), days).MatchingAtLeast(money(2_00)).MatchingAtMost(fine(400 * cent))
				for range 2 { // the second budget gets the same rule
					b := budget(s, large)
					for _, amount := range []spend.Money{fine(200*cent - 1), fine(200 * cent), money(3_00), fine(400*cent + 1)} {
						r := s.request(1)
						r.Amount = amount
						s.yes(b.Charge(ctx, r))
					}
					s.shows(b, 500*cent, 0, 0, "large")
				}
			},
		},
		{
			name: "units finer than cents", rules: rules[:1],
			why: "prices of tokens are fractions of a cent, which add up exactly",
			run: func(s *fixture, _ *spend.Budgets) {
				b := budget(s, rules...)
				charge := func(m spend.Money) spend.Request { r := s.request(1); r.Amount = m; return r }
				s.yes(b.Charge(ctx, charge(fine(315))))
				cents := charge(money(2_50))
				first := s.yes(b.Charge(ctx, cents))
				if first.Amount != fine(250*cent) {
					s.Errorf("2.50 EUR moved %#v; want it in the unit of the budget", first.Amount)
				}
				same := cents
				same.Amount = spend.Money{Minor: 25000, Currency: "EUR:4"}
				if d := s.yes(b.Charge(ctx, same)); !d.Replayed || d.Amount != first.Amount {
					s.Errorf("the same amount with another scale is no retry: %+v", d)
				}
				same.Amount.Minor++
				s.fails(spend.ErrIDReused)(b.Charge(ctx, same))
				s.shows(b, 315+250*cent, 0, 750*cent-315, "day")
				s.shows(b, 315+250*cent, 0, 1750*cent-315, "smooth")

				hold := charge(fine(100*cent + 1))
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.fails(spend.ErrNotHeld)(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: fine(101*cent + 2)}))
				s.yes(b.Decrease(ctx, spend.DecreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: fine(cent + 1)}))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(40), Final: true}))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: hold.ID, Amount: fine(40*cent - 7)}))
				s.shows(b, 322+250*cent, 0, 750*cent-322, "day")
				all := charge(money(100_00))
				d, err := b.UpTo(ctx, spend.UpToRequest{Request: all, Least: spend.Money{Minor: 1, Currency: "EUR:3"}})
				if s.yes(d, err); d.Amount != fine(500*cent) {
					s.Errorf("UpTo approved %v; want 5.00000000 EUR", d.Amount)
				}
				s.no(days, "day")(b.Charge(ctx, charge(fine(250*cent-321))))
				s.yes(b.Charge(ctx, charge(fine(250*cent-322))))
				s.shows(b, 1000*cent, 0, 0, "day")
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil || e.Used.Currency != "EUR:8" || e.Amount.Currency != "EUR:8" {
						s.Fatalf("entry %+v, %v; want amounts with the scale of the budget", e, err)
					}
				}
				status, err := b.Get(ctx, hold.ID)
				if err != nil || status.Spend.Captured != fine(40*cent) || status.Spend.Refunded != fine(40*cent-7) {
					s.Errorf("the hold is %+v, %v", status.Spend, err)
				}
			},
		},
		{
			name: "own limits with a scale", rules: rules[:1], why: "an account's own limit counts in the unit of the budget",
			run: func(s *fixture, _ *spend.Budgets) {
				b := budget(s, rules...)
				limits := []spend.RuleLimit{{Rule: "day", Amount: money(1)}, {Rule: "often", Amount: spend.Money{Minor: 3}}}
				r := spend.LimitsRequest{ID: s.id(), Account: "card", Limits: limits}
				s.yes(b.SetLimits(ctx, r))
				r.Limits = []spend.RuleLimit{{Rule: "day", Amount: fine(cent)}, limits[1]}
				if d := s.yes(b.SetLimits(ctx, r)); !d.Replayed {
					s.Error("the same limit with another scale is no retry")
				}
				got, err := b.Limits(ctx, "card")
				if want := []spend.RuleLimit{{Rule: "day", Amount: fine(cent)}, limits[1]}; err != nil || !reflect.DeepEqual(got, want) {
					s.Errorf("limits %+v, %v; want %+v", got, err, want)
				}
				over := s.request(1)
				over.Amount = fine(cent + 1)
				s.no(store.Never, "day")(b.Charge(ctx, over))
				s.yes(b.Charge(ctx, s.request(1)))
				r.ID, r.Limits = s.id(), []spend.RuleLimit{{Rule: "day", Amount: spend.Money{Minor: 1, Currency: "EUR:9"}}}
				s.fails(spend.ErrAmount)(b.SetLimits(ctx, r))
			},
		},
		{
			name: "nothing is rounded", rules: rules[:1], why: "an amount that the budget cannot count exactly is refused, and named",
			run: func(s *fixture, cents *spend.Budgets) {
				b := budget(s, rules...)
				hold := s.request(100)
				s.yes(b.Authorize(ctx, hold))
				tenth := spend.Money{Minor: 11, Currency: "EUR:9"} // of the unit of b
				huge := spend.Money{Minor: math.MaxInt64 / 100, Currency: "EUR"}
				for name, m := range map[string]spend.Money{"finer than": tenth, "the largest amount is": huge} {
					r := s.request(1)
					r.Amount = m
					for _, call := range []func() (spend.Decision, error){
						func() (spend.Decision, error) { return b.Charge(ctx, r) },
						func() (spend.Decision, error) { return b.AbleToAccept(ctx, r) },
						func() (spend.Decision, error) { return b.Record(ctx, r) },
						func() (spend.Decision, error) { return b.UpTo(ctx, spend.UpToRequest{Request: r, Least: fine(1)}) },
						func() (spend.Decision, error) {
							return b.UpTo(ctx, spend.UpToRequest{Request: s.request(5), Least: m})
						},
						func() (spend.Decision, error) { a := b.ChargeAll(ctx, []spend.Request{r})[0]; return a.Decision, a.Err },
						func() (spend.Decision, error) {
							return b.Increase(ctx, spend.IncreaseRequest{ID: r.ID, HoldID: hold.ID, Amount: m})
						},
						func() (spend.Decision, error) {
							return b.Capture(ctx, spend.CaptureRequest{ID: r.ID, HoldID: hold.ID, Amount: m, Force: true})
						},
						func() (spend.Decision, error) {
							return b.Refund(ctx, spend.RefundRequest{ID: r.ID, SpendID: hold.ID, Amount: m})
						},
					} {
						if d, err := call(); !errors.Is(err, spend.ErrAmount) || !strings.Contains(err.Error(), name) {
							s.Errorf("%#v: %+v, %v; want ErrAmount that says %q", m, d, err, name)
						}
					}
				}
				s.shows(b, 0, 100*cent, 900*cent, "day")
				r := s.request(1)
				r.Amount = fine(cent / 2)
				s.fails(spend.ErrAmount)(cents.Charge(ctx, r))
				r.Amount = fine(3 * cent)
				s.yes(cents.Charge(ctx, r))
				s.shows(cents, 3, 0, 997)
			},
		},
		{
			name: "the unit of a budget cannot change", rules: rules[:1],
			why: "the stored figures would become a million times as large, or as small",
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(100)
				s.yes(b.Authorize(ctx, hold))
				for _, currency := range []string{"EUR:8", "USD"} {
					other, err := spend.New(s.l, spend.Budget{
						Name: "the unit of a budget cannot change", Currency: currency,
						Rules: []spend.Rule{spend.Rolling("day", spend.Money{Minor: 100_00_000000, Currency: currency}, days)},
					}, nil)
					if err != nil {
						s.Fatal(err)
					}
					r := s.request(1)
					r.Amount.Currency = currency
					s.fails(spend.ErrCurrency)(other.Charge(ctx, r))
					s.fails(spend.ErrCurrency)(other.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
					if list, err := other.Remaining(ctx, "card"); !errors.Is(err, spend.ErrCurrency) {
						s.Errorf("Remaining in %s: %+v, %v; want ErrCurrency", currency, list, err)
					}
					r.Account, r.ID = "new in "+currency, s.id()
					s.yes(other.Charge(ctx, r))
				}
				s.advance(time.Second)
				s.shows(b, 0, 100, 900)
			},
		},
	}
}

// scaled returns the amount, or the same with another scale.
func (s *sequence) scaled(m spend.Money) spend.Money {
	if s.r.IntN(3) > 0 || m.Minor == most { // too large for a finer unit
		return m
	}
	same, err := m.In([]string{"EUR:3", "EUR:9"}[s.r.IntN(2)])
	if err != nil {
		s.t.Error(err)
		return m
	}
	return same
}
