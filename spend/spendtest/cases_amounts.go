package spendtest

import (
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// most is the largest amount that a Leaky rule counts.
const most = int64(store.MaxAmount)

// amountCases are about rules that filter by amount.
func amountCases() []testCase {
	large := spend.Rolling("large", money(1000), 30*days).MatchingAtLeast(money(100))
	return []testCase{
		{
			name: "a filter by amount",
			why:  "a rule counts and checks only the spends whose amount is within its bounds, the bounds included",
			rules: []spend.Rule{
				large,
				spend.Count("small", 2, 30*days).MatchingAtMost(money(99)),
				spend.PerTransaction("middle", money(0)).MatchingAtLeast(money(200)).MatchingAtMost(money(300)),
			},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(99)))
				s.shows(b, 0, 0, 1000, "large")
				s.shows(b, 1, 0, 1, "small")
				s.yes(b.Charge(ctx, s.request(100)))
				s.shows(b, 100, 0, 900, "large")
				s.shows(b, 1, 0, 1, "small")
				s.no(store.Never, "middle")(b.Charge(ctx, s.request(200)))
				s.no(store.Never, "middle")(b.Charge(ctx, s.request(300)))
				s.yes(b.Charge(ctx, s.request(301)))
				s.yes(b.Charge(ctx, s.request(199)))
				s.yes(b.Record(ctx, s.request(400)))
				s.shows(b, 1000, 0, 0, "large")
				s.no(30*days, "large")(b.Charge(ctx, s.request(100)))
				s.yes(b.Charge(ctx, s.request(1)))
				s.no(30*days, "small")(b.Charge(ctx, s.request(1)))
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "the first amount decides",
			why:   "an increase belongs to its spend, and no correction moves a spend into a rule or out of it",
			rules: []spend.Rule{large, spend.Lifetime("small", money(1000)).MatchingAtMost(money(99))},
			run: func(s *fixture, b *spend.Budgets) {
				small, big := s.request(90), s.request(500)
				s.yes(b.Authorize(ctx, small))
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: small.ID, Amount: money(400)}))
				s.shows(b, 0, 490, 510, "small")
				s.no(7*days, "small")(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: small.ID, Amount: money(511)}))
				s.yes(b.Authorize(ctx, big))
				s.yes(b.Decrease(ctx, spend.DecreaseRequest{ID: s.id(), HoldID: big.ID, Amount: money(450)}))
				s.shows(b, 0, 50, 950, "large")
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: big.ID, Amount: money(20)}))
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: big.ID, Amount: money(5)}))
				s.shows(b, 15, 30, 955, "large")
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: small.ID, Amount: money(300), Final: true}))
				late := spend.CaptureRequest{ID: s.id(), HoldID: small.ID, Amount: money(200), Force: true}
				s.yes(b.Capture(ctx, late))
				s.shows(b, 500, 0, 500, "small")
				// A rule that is new counts the same, from the entries.
				next := s.budget("the first amount decides",
					spend.Calendar("from 100", money(1000), spend.Year, time.UTC).MatchingAtLeast(money(100)),
					spend.Lifetime("up to 99", money(1000)).MatchingAtMost(money(99)),
					spend.Lifetime("all", money(2000)))
				s.shows(next, 15, 30, 955, "from 100")
				s.shows(next, 500, 0, 500, "up to 99")
				s.shows(next, 515, 30, 1455, "all")
				s.advance(7 * days) // the hold expires
				s.shows(next, 15, 0, 985, "from 100")
				for _, b := range []*spend.Budgets{b, next} {
					if err := b.Verify(ctx, "card"); err != nil {
						s.Error(err)
					}
				}
				for e, err := range b.History(ctx, "card", &spend.HistoryOptions{Limit: 1}) {
					if err != nil || e.Kind != "record" || e.SpendAmount != money(90) {
						s.Errorf("the last entry is %+v, %v; want the forced capture of a spend of 90", e, err)
					}
				}
			},
		},
		{
			name:  "as much as fits of an amount that a rule limits",
			why:   "a larger amount may fit where a smaller one does not, because the rule does not apply to it",
			rules: []spend.Rule{spend.Rolling("small", money(10), 30*days).MatchingAtMost(money(50)), spend.Rolling("all", money(160), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				upTo := func(most, least, want int64) {
					s.Helper()
					d := s.yes(b.UpTo(ctx, spend.UpToRequest{Request: s.request(most), Least: money(least)}))
					if d.Amount != money(want) {
						s.Errorf("of %d to %d, %v is approved; want %d", least, most, d.Amount, want)
					}
				}
				upTo(40, 1, 10)
				s.no(30*days, "small")(b.UpTo(ctx, spend.UpToRequest{Request: s.request(50), Least: money(1)}))
				upTo(51, 1, 51)
				upTo(60, 50, 60)
				// 39 are left of "all", and "small" has no room for them.
				s.no(30*days, "small")(b.UpTo(ctx, spend.UpToRequest{Request: s.request(100), Least: money(1)}))
				s.shows(b, 121, 0, 39, "all")
			},
		},
		{
			name:  "more than a leaky bucket counts",
			why:   "above 2^53 a bucket would round the sum, and the figures would differ from the entries",
			rules: []spend.Rule{spend.Leaky("leaky", money(most), 30*days), spend.Lifetime("ever", money(math.MaxInt64))},
			run: func(s *fixture, b *spend.Budgets) {
				over := func(d spend.Decision, err error) {
					s.Helper()
					s.fails(spend.ErrAmount)(d, err)
					if largest := money(most).String(); !strings.Contains(err.Error(), largest) {
						s.Errorf("the error is %v; want one that names %s", err, largest)
					}
				}
				force := func(hold spend.Request, n int64) spend.CaptureRequest {
					return spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(n), Force: true}
				}
				small, hold := s.request(7), s.request(10)
				s.yes(b.Charge(ctx, small))
				s.yes(b.Authorize(ctx, hold))
				over(b.Record(ctx, s.request(most-16)))
				late := s.request(most - 16)
				late.Dated = s.clock.now().Add(-time.Hour)
				over(b.Record(ctx, late))
				both := s.request(most - 16)
				both.Account, both.Also = "other", []spend.Account{{Budget: "more than a leaky bucket counts", Name: "card"}}
				over(b.Record(ctx, both))
				over(b.Capture(ctx, force(hold, most-6)))
				s.shows(b, 7, 10, most-17)
				s.shows(b, 7, 10, math.MaxInt64-17, "ever")
				s.yes(b.Record(ctx, s.request(most-17)))
				s.shows(b, most-10, 10, 0)
				over(b.Record(ctx, s.request(1)))
				over(b.Capture(ctx, force(hold, 11)))
				// A sum of 2^53+1 rounds to 2^53, which would fit.
				for _, n := range []int64{1, 2, most} {
					d, err := b.Charge(ctx, s.request(n))
					if err != nil || d.Approved || len(d.Declines) != 1 || d.Declines[0].Rule != "leaky" {
						s.Errorf("a charge of %d: %+v, %v; want a decline by the bucket, which is full", n, d, err)
					}
				}
				s.yes(b.Capture(ctx, force(hold, 10)))
				over(b.Record(ctx, s.request(1)))
				s.shows(b, most, 0, 0)
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: small.ID, Amount: money(3)}))
				s.shows(b, most-3, 0, 3)
				s.yes(b.Record(ctx, s.request(3)))
				s.advance(31 * days)
				s.shows(b, 0, 0, most)
				s.yes(b.Record(ctx, s.request(most)))
				over(b.Record(ctx, s.request(most)))
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
	}
}
