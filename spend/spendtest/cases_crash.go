package spendtest

import (
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// crashCases are about transactions that are lost, and about restarts.
func crashCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name: "a lost transaction leaves nothing", why: "a decision is stored wholly or not at all", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				if s.h.Crash == nil {
					s.Log("left out because it needs Harness.Crash")
					return
				}
				s.yes(b.Charge(ctx, s.request(1)))
				charge, hold := s.request(100), s.request(200)
				for _, call := range []func(*spend.Budgets) (spend.Decision, error){
					func(b *spend.Budgets) (spend.Decision, error) { return b.Charge(ctx, charge) },
					func(b *spend.Budgets) (spend.Decision, error) { return b.Authorize(ctx, hold) },
				} {
					s.h.Crash(s, s.l, func(l ledger.Ledger) { s.yes(call(b.With(l))) })
					if d := s.yes(call(b)); d.Replayed {
						s.Error("the ledger remembers a request of a lost transaction")
					}
				}
				s.shows(b, 101, 200, 699)
				s.sound(b, 3)
			},
		},
		{
			name: "a restart loses nothing", why: "answers, entries, spends and holds outlive the process", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				if s.h.Reopen == nil {
					s.Log("left out because it needs Harness.Reopen")
					return
				}
				charge, hold, expiring := s.request(100), s.request(200), s.request(300)
				hold.TTL, expiring.TTL = 2*days, time.Hour
				first := s.yes(b.Charge(ctx, charge))
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Authorize(ctx, expiring))
				s.l = s.h.Reopen(s, s.l, s.clock.now)
				b = b.With(s.l)
				s.shows(b, 100, 500, 400)
				s.sound(b, 3)
				if d := s.yes(b.Charge(ctx, charge)); !d.Replayed || !d.At.Equal(first.At) {
					s.Errorf("a retry after the restart got %+v; want a replay of %+v", d, first)
				}
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(150), Final: true}))
				s.advance(time.Hour)
				s.yes(b.Charge(ctx, s.request(1)))
				s.shows(b, 251, 0, 749)
				s.advance(30 * days)
				s.yes(b.Charge(ctx, s.request(1000)))
				s.sound(b, 8)
			},
		},
	}
}
