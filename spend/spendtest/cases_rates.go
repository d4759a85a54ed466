package spendtest

import (
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// rateCases are about Leaky rules whose rate changes.
func rateCases() []testCase {
	// One unit leaks each second if the amount is 1024.
	leaky := func(amount int64) spend.Rule {
		return spend.Leaky("leaky", money(amount), 1024*time.Second).AtMost(money(1 << 20))
	}
	other := spend.PerTransaction("other", money(5000)).AtMost(money(6000))
	verified := func(s *fixture, budgets ...*spend.Budgets) {
		s.Helper()
		for _, b := range budgets {
			if err := b.Verify(ctx, "card"); err != nil {
				s.Error(err)
			}
		}
	}
	cases := []testCase{
		{
			name:  "an account that is idle while its rate is lowered",
			why:   "the time before the change has leaked at the old rate, so units do not come back",
			rules: []spend.Rule{leaky(1024)},
			run: func(s *fixture, b *spend.Budgets) {
				lowered := s.budget("an account that is idle while its rate is lowered", leaky(512))
				s.yes(b.Charge(ctx, s.request(1000)))
				s.advance(1000 * time.Second)
				s.shows(lowered, 0, 0, 512)
				s.yes(lowered.Charge(ctx, s.request(512)))
				s.advance(2 * time.Second)
				s.shows(lowered, 511, 0, 1)
				s.shows(b, 511, 0, 513)
				verified(s, b, lowered)
			},
		},
		{
			name:  "a question at another rate",
			why:   "it writes nothing, so it does not end the time at the old rate",
			rules: []spend.Rule{leaky(1024)},
			run: func(s *fixture, b *spend.Budgets) {
				doubled := s.budget("a question at another rate", leaky(2048))
				s.yes(b.Charge(ctx, s.request(1000)))
				s.advance(500 * time.Second)
				s.no(26*time.Second, "leaky")(doubled.AbleToAccept(ctx, s.request(1600)))
				s.shows(doubled, 500, 0, 1548)
				if _, err := doubled.Prune(ctx); err != nil { // nor is Prune a decision
					s.Error(err)
				}
				s.advance(100 * time.Second)
				s.shows(b, 400, 0, 624)
				s.shows(doubled, 400, 0, 1648)
				verified(s, b, doubled)
			},
		},
		{
			name:  "a limit of an account that ends while it is idle",
			why:   "the rate changes when the limit ends, and not when a decision notices it; a later change of the budget does not reach back",
			rules: []spend.Rule{leaky(1024)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(1000)))
				s.limit(b, spend.RuleLimit{Rule: "leaky", Amount: money(4096), Until: s.clock.now().Add(100 * time.Second)})
				s.advance(300 * time.Second)
				s.shows(b, 400, 0, 624) // 4 a second, and then 1
				doubled := s.budget("a limit of an account that ends while it is idle", leaky(2048))
				s.shows(doubled, 400, 0, 1648)
				s.no(store.Never, "leaky")(doubled.Charge(ctx, s.request(2049)))
				s.advance(50 * time.Second)
				s.shows(b, 300, 0, 724)
				verified(s, b, doubled)
				// By a quarter of a unit a second, and then by 1, there is room for 200 in 251 s.
				s.yes(b.Record(ctx, s.request(700)))
				s.limit(b, spend.RuleLimit{Rule: "leaky", Amount: money(256), Until: s.clock.now().Add(100 * time.Second)})
				s.no(251*time.Second, "leaky")(b.Charge(ctx, s.request(200)))
				s.advance(251*time.Second - time.Microsecond)
				s.no(time.Microsecond, "leaky")(b.Charge(ctx, s.request(200)))
				s.advance(time.Microsecond)
				s.yes(b.Charge(ctx, s.request(200)))
				s.shows(b, 1024, 0, 0)
				verified(s, b)
			},
		},
		{
			name:  "entries that a rule counts later",
			why:   "they fill the bucket at their own times and at the rate of then, also if the rate has changed since",
			rules: []spend.Rule{other},
			run: func(s *fixture, b *spend.Budgets) {
				usual := s.budget("entries that a rule counts later", other, leaky(1024))
				doubled := s.budget("entries that a rule counts later", other, leaky(2048))
				s.yes(usual.Charge(ctx, s.request(1000)))
				s.limit(usual, spend.RuleLimit{Rule: "leaky", Amount: money(4096), Until: s.clock.now().Add(50 * time.Second)})
				s.advance(100 * time.Second)
				s.yes(b.Charge(ctx, s.request(50)))
				s.advance(100 * time.Second)
				s.shows(doubled, 1000-200-50+50-100, 0, 2048-700, "leaky")
				s.yes(doubled.Charge(ctx, s.request(1)))
				s.advance(100 * time.Second)
				s.shows(usual, 501, 0, 523, "leaky")
				verified(s, usual, doubled)
			},
		},
		{
			name:  "holds beside a large amount",
			why:   "held money is counted to the unit, however large the amount of a Leaky rule is",
			rules: []spend.Rule{spend.Leaky("leaky", money(most), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				hold, next := s.request(10), s.request(1)
				s.yes(b.Authorize(ctx, hold))
				s.yes(b.Authorize(ctx, next))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(4)}))
				s.shows(b, 4, 7, most-11)
				s.yes(b.Decrease(ctx, spend.DecreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.shows(b, 4, 6, most-10)
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
				s.shows(b, 4, 1, most-5)
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: next.ID}))
				s.shows(b, 4, 0, most-4)
				verified(s, b)
			},
		},
	}
	// Decisions that take or give back no used money, by a process with another rate.
	for name, decide := range map[string]func(s *fixture, b *spend.Budgets){
		"a charge":    func(s *fixture, b *spend.Budgets) { s.yes(b.Charge(ctx, s.request(1))) },
		"a refusal":   func(s *fixture, b *spend.Budgets) { s.no(store.Never, "leaky")(b.Charge(ctx, s.request(4000))) },
		"a hold":      func(s *fixture, b *spend.Budgets) { s.yes(b.Authorize(ctx, s.request(1))) },
		"a new limit": func(s *fixture, b *spend.Budgets) { s.limit(b, spend.RuleLimit{Rule: "other", Amount: money(6000)}) },
		"an unfreezing": func(s *fixture, b *spend.Budgets) {
			s.yes(b.Unfreeze(ctx, spend.FreezeRequest{ID: s.id(), Account: "card"}))
		},
	} {
		cases = append(cases, testCase{
			name:  "a rate doubled and rolled back by " + name,
			why:   "the time before a decision has leaked at the rate of the decision before; otherwise the change mints room",
			rules: []spend.Rule{leaky(1024), other},
			run: func(s *fixture, b *spend.Budgets) {
				doubled := s.budget("a rate doubled and rolled back by "+name, leaky(2048), other)
				used := func(b *spend.Budgets, want int64) {
					s.Helper()
					list, err := b.Remaining(ctx, "card")
					if err != nil || list[0].Used.Minor != want {
						s.Fatalf("%+v, %v; want %d used", list, err, want)
					}
				}
				s.yes(b.Charge(ctx, s.request(1000)))
				s.advance(500 * time.Second)
				decide(s, doubled)
				n := int64(500)
				if name == "a charge" {
					n++
				}
				used(doubled, n)
				used(b, n)
				s.advance(100 * time.Second)
				used(b, n-200)
				s.no(store.Never, "leaky")(b.Charge(ctx, s.request(2048)))
				s.advance(100 * time.Second)
				used(b, n-300)
				used(doubled, n-300)
				verified(s, b, doubled)
			},
		})
	}
	// A new limit of the rule itself.
	return append(cases, testCase{
		name:  "an account's own limit of a Leaky rule",
		why:   "the time before it has leaked at the rate of the limit before, once",
		rules: []spend.Rule{leaky(1024)},
		run: func(s *fixture, b *spend.Budgets) {
			s.yes(b.Charge(ctx, s.request(1000)))
			s.advance(100 * time.Second)
			s.limit(b, spend.RuleLimit{Rule: "leaky", Amount: money(4096)})
			s.shows(b, 900, 0, 3196)
			s.advance(100 * time.Second)
			s.shows(b, 500, 0, 3596)
			s.limit(b, spend.RuleLimit{Rule: "leaky", Default: true})
			s.shows(b, 500, 0, 524)
			s.advance(100 * time.Second)
			s.limit(b, spend.RuleLimit{Rule: "leaky", Amount: money(0)}) // leaks as usual
			s.advance(100 * time.Second)
			s.shows(b, 300, 0, -300)
			verified(s, b)
		},
	})
}
