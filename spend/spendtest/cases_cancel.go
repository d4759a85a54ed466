package spendtest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// cancelCases are about requests that are canceled.
func cancelCases() []testCase {
	rules := []spend.Rule{month(1000), spend.Count("often", 3, 30*days), spend.Lifetime("ever", money(5000))}
	n := int64(rounds * perRound)
	return []testCase{
		{
			name: "cancel", rules: rules,
			why: "a canceled ID holds and spends nothing, whatever has become of its request, and counts no more",
			steps: []step{
				authorize("h", 100), increase("h", 20), charge(50).as("c"), record(7).as("r"), shows(57, 120, 823), shows(3, 0, 0, "often"),
				cancel("h"), shows(57, 0, 943), shows(2, 0, 1, "often"), authorize("h", 100).canceled(), charge(3).as("h").canceled(),
				cancel("h").again(), void("h").fails(spend.ErrHoldEnded), capture("h", 1).fails(spend.ErrHoldEnded),
				increase("h", 1).fails(spend.ErrHoldEnded),
				refund("c", 20), after(days), cancel("c"), cancel("r"), shows(0, 0, 1000), shows(0, 0, 3, "often"), shows(0, 0, 5000, "ever"),
				refund("c", 1).fails(spend.ErrExceeds), charge(50).as("c").canceled(),
				authorize("part", 100), capture("part", 40), cancel("part"), shows(0, 0, 1000), shows(0, 0, 3, "often"),
				capture("part", 5).forced(), shows(5, 0, 995), shows(1, 0, 2, "often"),
				authorize("late", 100).lasting(days), after(days), cancel("late"), shows(5, 0, 995), shows(1, 0, 2, "often"), sound(16),
			},
		},
		{
			name: "cancel of a request that was not sent", rules: rules,
			why: "a request that arrives after its cancellation must not hold money that nobody will release",
			steps: []step{
				cancel("a"), authorize("a", 100).canceled(), charge(100).as("a").canceled(), credit(5).as("a").canceled(),
				cancel("a").again(), charge(1).as("b"), increase("b", 1).as("a").canceled(), shows(1, 0, 999),
				charge(1001).as("declined").no(store.Never, "month"), cancel("declined"), charge(1001).as("declined").canceled().no(0, "month"),
				void("a").fails(spend.ErrHoldEnded), capture("a", 1).fails(spend.ErrHoldEnded), gives("a", "canceled", 0, 0, 0), sound(4),
			},
		},
		{
			name: "money that moves after a cancellation", rules: []spend.Rule{month(1000), spend.Count("large", 3, 30*days).MatchingAtLeast(money(50)), spend.Lifetime("each", money(5000)).Per("merchant")},
			why: "a network that has taken the money tells so later; the limit counts it, and only the approval of this ledger stays undone",
			steps: []step{
				check(func(s *fixture) {
					if d, err := cancel("c").in(s).Send(ctx, s.b); err != nil || len(d.Remaining) != 2 {
						s.Errorf("%+v, %v; want no figure of a rule for each merchant: a cancellation has no tags", d, err)
					}
				}),
				capture("c", 60).forced().as("take"), capture("c", 60).forced().as("take").again(), shows(60, 0, 940), shows(1, 0, 2, "large"),
				authorize("c", 100).canceled(), record(7).as("c").canceled(), cancel("c").again(), gives("c", "canceled", 0, 60, 0),
				refund("c", 60), shows(0, 0, 1000), capture("c", 5).forced(), shows(5, 0, 995),
				cancel("r"), record(100).as("r").with("merchant", "a"), record(100).as("r").with("merchant", "a").again(), shows(105, 0, 895),
				record(101).as("r").fails(spend.ErrIDReused), gives("r", "charged", 0, 100, 0), cancel("r"), shows(5, 0, 995), record(100).as("r").canceled(),
				charge(1001).as("f").no(store.Never, "month"), cancel("f"), authorize("f", 90).forced(), shows(5, 90, 905), capture("f", 90), shows(95, 0, 905),
				authorize("h", 50), cancel("h"), record(50).as("h").canceled(), authorize("h", 50).forced().canceled(), shows(95, 0, 905), sound(13),
			},
		},
		{
			name: "cancel of another request", rules: rules,
			why: "only the account of a request cancels it, and money that an increase holds is not that of a new spend",
			steps: []step{
				authorize("h", 100), increase("h", 5).as("i"), cancel("i").fails(spend.ErrIDReused), cancel("h").to("other").fails(spend.ErrRequest),
				freeze("lost").as("f"), cancel("f").fails(spend.ErrIDReused), shows(0, 105, 895), cancel("h"), shows(0, 0, 1000), sound(5),
			},
		},
		{
			name: "cancel over several accounts", rules: rules,
			why: "every account that a request was charged to has its money back",
			steps: []step{check(func(s *fixture) {
				also := spend.Account{Budget: s.c.name, Name: "team"}
				authorize("h", 100).and(also).do(s)
				charge(30).as("c").and(also).do(s)
				cancel("h").do(s)
				cancel("c").do(s)
				if list, err := s.b.Remaining(ctx, "team"); err != nil || list[0].Remaining.Minor != 1000 || list[1].Remaining.Minor != 3 {
					s.Errorf("the second account shows %+v, %v", list, err)
				}
			}), shows(0, 0, 1000), sound(4)},
		},
		{
			name: "money of one account after the cancellation of a decline in two", rules: rules,
			why: "the ID has another request then, and the other account keeps the entry of the decline",
			steps: []step{check(func(s *fixture) {
				charge(1001).as("x").and(spend.Account{Budget: s.c.name, Name: "team"}).no(store.Never, "month", "month").do(s)
				cancel("x").do(s)
				record(5).as("x").do(s)
				if err := s.b.Verify(ctx, "team"); err != nil {
					s.Error(err)
				}
			}), shows(5, 0, 995), sound(3)},
		},
		{
			name: "a canceled ID is kept from its cancellation on", rules: rules,
			why: "a request that was old when it was canceled may still come; its ID was about to be removed",
			steps: []step{
				charge(10).as("c"), charge(1001).as("declined").no(store.Never, "month"), authorize("h", 5).lasting(days), after(80 * days), cancel("c"),
				cancel("declined"), cancel("h"), cancel("new"), after(89 * days), prune(0, 0), charge(10).as("c").canceled(),
				charge(1001).as("declined").canceled().no(0, "month"), authorize("h", 5).canceled(), charge(1).as("new").canceled(),
				after(2 * days), prune(0, 4), charge(10).as("c"), shows(10, 0, 990),
			},
		},
		{
			name: "cancel of an authorization of nothing that has taken money", rules: []spend.Rule{spend.Count("often", 3, 30*days)},
			why:   "it counts as a spend from its authorization on, and not from the capture: taken back at the date of the capture, it made room",
			steps: []step{authorize("z", 0), after(31 * days), capture("z", 5).forced(), shows(0, 0, 3), cancel("z"), shows(0, 0, 3), sound(4)},
		},
		{
			name: "racing cancels", rules: []spend.Rule{month(100_000)},
			why: "a request and its cancellation may meet, and the request may come first or last; no money stays held",
			steps: []step{check(func(s *fixture) {
				var held atomic.Int64
				s.race(func(racer, i int) error {
					c := authorize(fmt.Sprint("h", i), 4)
					if racer%2 == 1 {
						c = cancel(fmt.Sprint("h", i))
					}
					d, err := c.in(s).Send(ctx, s.b)
					if err == nil && racer%2 == 0 && d.Approved && !d.Replayed {
						held.Add(1)
					}
					return err
				})
				s.Logf("%d of %d requests came before their cancellation", held.Load(), n)
				for i := range n {
					authorize(fmt.Sprint("h", i), 4).canceled().do(s)
				}
			}), shows(0, 0, 100_000), after(time.Second)},
		},
	}
}

// forcedCases are about money that somebody else has authorized.
func forcedCases() []testCase {
	rules := []spend.Rule{month(1000), spend.Count("often", 2, 30*days), spend.Leaky("smooth", money(1000), 1000*time.Second)}
	forced := func(id string, n int64) call { return authorize(id, n).forced() }
	return []testCase{
		{
			name: "a forced authorization", rules: rules,
			why: "what a network has approved in our place is held, also beyond the rules, until it is captured, voided or expires",
			steps: []step{
				charge(900), forced("a", 300), shows(900, 300, -200), forced("a", 300).again(), authorize("a", 300).fails(spend.ErrIDReused),
				freeze("lost"), forced("b", 50).lasting(days), shows(900, 350, -250), shows(3, 0, -1, "often"),
				on("upTo", 5).down(money(5)).forced().no(store.Never, "", "month", "often", "smooth"),
				capture("a", 250).last(), shows(1150, 50, -200), after(days),
				shows(1150, 0, -150), shows(2, 0, 0, "often"), shows(0, 0, 1000, "smooth"), void("b").fails(spend.ErrHoldExpired), sound(7),
			},
		},
		{
			name: "an increase by as much as fits", rules: rules,
			why: "a call that goes on holds what is left of the budget, and stops if that is too little",
			steps: []step{
				authorize("h", 900), increase("h", 300).down(money(50)).as("i"), increase("h", 300).down(money(50)).as("i").again(),
				increase("h", 300).down(money(40)).as("i").fails(spend.ErrIDReused), shows(0, 1000, 0),
				increase("h", 5).down(money(1)).no(7*days, "month", "smooth"), increase("h", 5).down(money(6)).fails(spend.ErrAmount), sound(3),
			},
		},
		{
			name: "open holds of another system", rules: rules,
			why: "a hold that is brought in with its ID and its date counts from that date, once, and ends here",
			steps: []step{
				forced("old", 100).ago(20 * days).lasting(15 * days), forced("old", 100).ago(20 * days).lasting(15 * days).again(),
				record(200).ago(10 * days), shows(200, 100, 700), shows(200, 100, 700, "smooth"), increase("old", 1), after(10 * days),
				shows(200, 1, 799), capture("old", 60), shows(200, 1, 799), refund("old", 60), void("old"), shows(200, 0, 800),
				forced("future", 1).ago(-days).fails(spend.ErrRequest), sound(7),
			},
		},
	}
}
