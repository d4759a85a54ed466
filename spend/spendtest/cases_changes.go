package spendtest

import (
	"time"

	"github.com/brimgo/brim/spend"
)

// changeCases are about rules that change.
func changeCases() []testCase {
	return []testCase{
		{
			name: "a changed amount resets nothing", why: "used money stays used",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				with := func(rolling, leaky int64) *spend.Budgets {
					return s.budget(name, spend.Rolling("r", money(rolling), 30*days), spend.Leaky("l", money(leaky), 1024*time.Second))
				}
				s.yes(with(1000, 1024).Charge(ctx, s.request(600)))
				lower := with(500, 512)
				s.shows(lower, 600, 0, -100, "r")
				s.shows(lower, 600, 0, -88, "l")
				higher := with(2000, 2048)
				s.shows(higher, 600, 0, 1400, "r")
				s.shows(higher, 600, 0, 1448, "l")
			},
		},
		{
			name:  "a new rule counts earlier entries",
			why:   "otherwise a new limit would ignore earlier spends; only a Leaky rule starts empty, as documented",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				before := s.budget(name, spend.PerTransaction("single", money(1000)))
				hold := s.request(300, "category", "travel")
				s.yes(before.Authorize(ctx, hold))
				s.advance(2 * days)
				s.yes(before.Charge(ctx, s.request(500)))
				after := s.budget(
					name, spend.Rolling("week", money(1000), 7*days), spend.Rolling("day", money(1000), 1*days),
					spend.Lifetime("travel", money(1000)).Matching("category", "travel"), spend.Count("often", 10, 7*days),
					spend.Calendar("month", money(1000), spend.Month, time.UTC), spend.Leaky("leaky", money(1024), 1024*time.Second),
				)
				s.shows(after, 500, 300, 200, "week")
				s.shows(after, 500, 0, 500, "day")
				s.shows(after, 0, 300, 700, "travel")
				s.shows(after, 2, 0, 8, "often")
				s.shows(after, 500, 300, 200, "month")
				s.shows(after, 0, 0, 1024, "leaky")
				// The hold is older than the bucket, so its capture neither fills the
				// bucket nor releases units there.
				s.yes(after.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(300)}))
				s.shows(after, 0, 0, 1024, "leaky")
				s.yes(after.Authorize(ctx, s.request(24)))
				s.shows(after, 0, 24, 1000, "leaky")
				s.shows(after, 800, 24, 176, "week")
			},
		},
		{
			name:  "two processes with different rules",
			why:   "during a rollout older processes decide without a new rule, which must count their spends too",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *fixture, _ *spend.Budgets) {
				name := s.budgetName()
				single := spend.PerTransaction("single", money(1000))
				older := s.budget(name, single)
				newer := s.budget(
					name, single, spend.Rolling("week", money(1000), 7*days), spend.Leaky("leaky", money(1024), 1024*time.Second),
				)
				s.yes(newer.Charge(ctx, s.request(100)))
				s.advance(10 * time.Second)
				hold := s.request(200)
				s.yes(older.Authorize(ctx, hold))
				s.advance(10 * time.Second)
				s.yes(older.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(150), Final: true}))
				s.advance(10 * time.Second)
				s.shows(newer, 250, 0, 750, "week")
				// One unit leaks each second: 100 units at first, 150 more after 20 s, and
				// 10 s since then.
				s.shows(newer, 220, 0, 1024-220, "leaky")
			},
		},
	}
}
