package spendtest

import (
	"time"

	"github.com/brimgo/brim/spend"
)

// pruningCases are about Prune by a process that lacks rules of another process.
func pruningCases() []testCase {
	other := spend.PerTransaction("other", money(1<<20))
	figures := func(s *fixture, b *spend.Budgets, want map[string]int64) {
		s.Helper()
		list, err := b.Remaining(ctx, "card")
		if err != nil {
			s.Fatal(err)
		}
		for _, u := range list {
			if used := want[u.Rule]; u.Used.Minor != used || u.Held.Minor != 0 {
				s.Errorf("rule %s: %d used, %d held; want %d, 0", u.Rule, u.Used.Minor, u.Held.Minor, used)
			}
		}
		if err := b.Verify(ctx, "card"); err != nil {
			s.Error(err)
		}
	}
	prune := func(s *fixture, b *spend.Budgets) {
		s.Helper()
		if _, err := b.Prune(ctx); err != nil {
			s.Fatal(err)
		}
	}
	return []testCase{
		{
			name: "prune beside an idle account",
			why:  "a figure of another process counts entries that it subtracts later; without them they stay used for ever",
			rules: []spend.Rule{
				spend.Rolling("month", money(10000), 30*days), spend.Rolling("longer", money(10000), 80*days),
				spend.Rolling("each", money(10000), 30*days).Per("merchant").CountsCredits(),
				spend.Calendar("calendar", money(10000), spend.Month, time.UTC), spend.Count("often", 10, 30*days),
				spend.CountPer("monthly", 10, spend.Month, time.UTC),
			},
			run: func(s *fixture, b *spend.Budgets) {
				job := s.budget("prune beside an idle account", other)
				s.yes(b.Charge(ctx, s.request(9000)))
				s.advance(10 * days)
				s.yes(b.Credit(ctx, s.request(1000)))
				s.advance(10 * days)
				s.yes(b.Charge(ctx, s.request(500)))
				s.advance(71 * days)
				prune(s, job)
				figures(s, b, map[string]int64{"longer": 500})
				s.advance(4 * days)
				figures(s, b, map[string]int64{"longer": 500})
				prune(s, job)
				s.advance(5 * days)
				figures(s, b, nil)
				s.yes(b.Charge(ctx, s.request(10000)))
				figures(s, b, map[string]int64{
					"month": 10000, "longer": 10000, "each": 10000, "calendar": 10000, "often": 1, "monthly": 1,
				})
				// Nothing keeps the entries of an account that stays idle.
				s.advance(200 * days)
				prune(s, job)
				s.sound(b, 0)
			},
		},
		{
			name: "a rule that leaves and comes back",
			why:  "it counts the entries of the other process, which Prune keeps as long as it may need them",
			rules: []spend.Rule{
				other, spend.Rolling("long", money(1<<20), 300*days),
				spend.Leaky("slow", money(1<<20), 1<<26*time.Second),
			},
			run: func(s *fixture, b *spend.Budgets) {
				job := s.budget("a rule that leaves and comes back", other)
				s.yes(b.Charge(ctx, s.request(1)))
				s.advance(70 * days)
				hold := s.request(2)
				s.yes(job.Authorize(ctx, hold))
				s.advance(5 * days)
				s.yes(job.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
				s.advance(5 * days)
				s.yes(job.Charge(ctx, s.request(400_000)))
				s.advance(230 * days)
				prune(s, job)
				s.advance(10 * days)
				// A 64th of a unit leaks each second.
				figures(s, b, map[string]int64{"long": 400_000, "slow": 400_000 - 240*86_400/64})
				s.advance(60 * days)
				prune(s, job)
				figures(s, b, nil)
			},
		},
	}
}
