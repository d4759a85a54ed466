package spendtest

import (
	"reflect"
	"time"

	"github.com/brimgo/brim/spend"
)

// timeCases are about a clock before 1970, whose times are negative.
func timeCases() []testCase {
	epoch := time.Unix(0, 0)
	rules := []spend.Rule{
		spend.Rolling("window", money(1000), 30*days).AtMost(money(2000)), spend.Calendar("month", money(1000), spend.Month, time.UTC),
		spend.Leaky("leaky", money(1024), 1024*time.Second), spend.Lifetime("ever", money(5000)), spend.Count("often", 9, 30*days),
	}
	at := func(s *fixture, d time.Duration) { s.clock.us.Store(d.Microseconds()) }
	return []testCase{
		{
			name: "a clock before 1970", why: "the time 0 is a time like any other, and no time is another value",
			rules: rules,
			run: func(s *fixture, b *spend.Budgets) {
				at(s, -100*days)
				if d := s.yes(b.Charge(ctx, s.request(100))); !d.At.Equal(s.clock.now()) {
					s.Errorf("the decision was made at %v; the clock is at %v", d.At, s.clock.now())
				}
				past := s.request(7)
				past.Dated = s.clock.now().Add(-10 * days)
				s.yes(b.Record(ctx, past))
				s.limit(b, spend.RuleLimit{Rule: "window", Amount: money(900)})
				s.shows(b, 107, 0, 793)
				s.advance(20 * days)
				s.shows(b, 100, 0, 800)
				s.limit(b, spend.RuleLimit{Rule: "window", Amount: money(2000), Until: epoch})
				if list, err := b.Limits(ctx, "card"); err != nil || len(list) != 2 {
					s.Errorf("Limits: %+v, %v; want the raise and the limit after it", list, err)
				}

				at(s, -30*days)
				s.yes(b.Charge(ctx, s.request(200)))
				if u := s.shows(b, 200, 0, 1800); !u.GrowsAt.Equal(epoch) {
					s.Errorf("GrowsAt is %v; want %v", u.GrowsAt, epoch)
				}
				at(s, -time.Hour)
				hold := s.request(50)
				hold.TTL = time.Hour
				s.yes(b.Authorize(ctx, hold))
				charge := s.request(10)
				first := s.yes(b.Charge(ctx, charge))
				first.Replayed = true
				if again, err := b.Charge(ctx, charge); err != nil || !reflect.DeepEqual(again, first) {
					s.Errorf("the charge sent again: %+v, %v; want %+v", again, err, first)
				}
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: s.held(b, 20)}))
				at(s, -time.Microsecond)
				s.shows(b, 210, 50, 1740)
				if open, err := b.Holds(ctx, "card"); err != nil || len(open) != 1 || open[0].State != "held" {
					s.Errorf("Holds: %+v, %v; want one", open, err)
				}

				at(s, 0)
				now := s.request(30)
				s.yes(b.Charge(ctx, now)) // dated 0
				at(s, time.Second)
				s.shows(b, 40, 0, 860)
				s.shows(b, 30, 0, 970, "month")
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: now.ID, Amount: money(5)}))
				late := s.request(1)
				late.Dated = epoch
				s.yes(b.Record(ctx, late))
				s.shows(b, 36, 0, 864)
				s.advance(30*days - time.Second - time.Microsecond)
				s.shows(b, 26, 0, 874)
				s.advance(time.Microsecond)
				s.shows(b, 0, 0, 900)
				s.shows(b, 100+7+200+10+25+1, 0, 5000-343, "ever")
				s.sound(b, 13)
			},
		},
		{
			name: "prune before 1970", why: "the entries that are gone have a time, and an account that nothing was pruned of has none",
			rules: []spend.Rule{spend.Rolling("window", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				prune := func(expired, requests int64) {
					s.Helper()
					want := spend.PruneResult{Expired: expired, Requests: requests}
					if done, err := b.Prune(ctx); err != nil || done != want {
						s.Errorf("Prune: %+v, %v; want %+v", done, err, want)
					}
				}
				at(s, -200*days)
				s.held(b, 100)
				prune(0, 0)
				at(s, -190*days)
				s.yes(b.Charge(ctx, s.request(1)))
				prune(0, 0)
				at(s, -100*days)
				prune(0, 1)
				s.shows(b, 0, 0, 1000)
				past := s.request(3)
				past.Dated = s.clock.now().Add(-90 * days)
				s.fails(spend.ErrRequest)(b.Record(ctx, past))
				past.Dated = past.Dated.Add(time.Microsecond)
				s.yes(b.Record(ctx, past))
				s.sound(b, 1)
				at(s, 0)
				prune(0, 2)
				s.sound(b, 0)
				s.shows(b, 0, 0, 1000)
			},
		},
	}
}

// held authorizes n units and returns the ID.
func (s *fixture) held(b *spend.Budgets, n int64) string {
	s.Helper()
	r := s.request(n)
	s.yes(b.Authorize(ctx, r))
	return r.ID
}
