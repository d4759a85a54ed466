package spendtest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// most is the largest amount that a Leaky rule counts.
const most = int64(store.MaxAmount)

func month(n int64) spend.Rule { return spend.Rolling("month", money(n), 30*days) }

// leaky returns a rule that leaks a unit each second if its amount is 1024.
func leaky(n int64) spend.Rule {
	return spend.Leaky("leaky", money(n), 1024*time.Second).AtMost(money(1 << 20))
}

// raise gives the card a limit of its own for some time.
func raise(rule string, n int64, d time.Duration) check {
	return func(s *fixture) {
		s.Helper()
		limit(spend.RuleLimit{Rule: rule, Amount: money(n), Until: s.clock.now().Add(d)}).do(s)
	}
}

// ruleCases are about the rules of a budget that the random sequences do not have, and about
// requests that they do not make.
func ruleCases() []testCase {
	single := spend.PerTransaction("single", money(1<<20))
	also := spend.Account{Budget: "a team", Name: "card"}
	one, two := spend.Account{Budget: "a request is its meaning", Name: "1"}, spend.Account{Budget: "a request is its meaning", Name: "2"}
	return []testCase{
		{
			name:  "a window ends to the microsecond",
			why:   "the window (now - window, now] does not contain a spend dated now - window",
			rules: []spend.Rule{spend.Rolling("hour", money(100), time.Hour)},
			steps: []step{
				charge(100), after(time.Hour - time.Microsecond), charge(1).no(time.Microsecond, "hour"),
				after(time.Microsecond), charge(100),
			},
		},
		{
			name:  "a blocked authorization of nothing",
			why:   "a blocked merchant blocks it, too; a bucket takes nothing always, so nobody waits for it",
			rules: []spend.Rule{leaky(1024), spend.PerTransaction("blocked", money(0)).Matching("shop", "s"), spend.Count("often", 1, time.Minute)},
			steps: []step{
				authorize("z", 0).with("shop", "s").no(store.Never, "blocked"), record(2048), raise("leaky", 512, time.Second),
				authorize("y", 0).no(time.Minute, "often"), after(time.Minute), authorize("x", 0),
				check(func(s *fixture) {
					got, err := s.b.Get(ctx, s.named("x"))
					if err != nil || got.Spend == nil || !got.Spend.ExpiresAt.IsZero() {
						s.Errorf("%+v, %v; want a spend that was never held", got.Spend, err)
					}
				}),
			},
		},
		{
			name:  "time never runs back",
			why:   "a clock that is set back must not bring entries into a window again, or subtract them twice",
			rules: []spend.Rule{spend.Rolling("hour", money(100), time.Hour)},
			steps: []step{charge(100), check(func(s *fixture) {
				at := record(1).decide(s).At
				after(-30 * time.Minute).do(s)
				if d := charge(1).no(90*time.Minute, "hour").decide(s); !d.At.Equal(at) {
					s.Errorf("a charge after the clock was set back was decided at %v; want %v", d.At, at)
				}
			}), after(90 * time.Minute), charge(100)},
		},
		{
			name: "a filter counts matching spends only",
			why:  "a rule ignores requests that do not match, or have no tags; one that allows nothing blocks what matches",
			rules: []spend.Rule{
				spend.Rolling("all", money(1000), time.Hour),
				spend.Rolling("travel", money(100), time.Hour).Matching("category", "hotel", "flight").Matching("country", "DE"),
				spend.PerTransaction("casinos", money(0)).Matching("mcc", "7995"),
				spend.PerTransaction("at home", money(0)).NotMatching("country", "DE", "AT"),
			},
			steps: []step{
				charge(100).with("category", "hotel", "country", "DE"), charge(200).with("category", "flight", "country", "AT"),
				charge(1).with("category", "flight", "country", "DE").no(time.Hour, "travel"),
				charge(200).with("country", "DE"), shows(100, 0, 0, "travel"), shows(500, 0, 500, "all"),
				charge(1).with("mcc", "7995", "country", "DE").no(store.Never, "casinos"),
				charge(1).with("mcc", "5411", "country", "FR").no(store.Never, "at home"),
				charge(1).with("mcc", "7995").no(store.Never, "casinos", "at home"),
			},
		},
		{
			name: "sums do not overflow", why: "a sum that wraps around would look like room; a cent is not rounded either",
			rules: []spend.Rule{spend.Lifetime("ever", money(math.MaxInt64))},
			steps: []step{
				charge(0).paid(fine(cent / 2)).fails(spend.ErrAmount), charge(0).paid(fine(3 * cent)), record(math.MaxInt64 - 4),
				check(func(s *fixture) {
					answers := s.b.ChargeAll(ctx, []spend.Request{charge(1).in(s).money(), charge(1).in(s).money()})
					if err := errors.Join(answers[0].Err, answers[1].Err); err != nil || answers[1].Decision.Approved {
						s.Errorf("got %+v; want an approval and a decline", answers)
					}
				}),
				charge(math.MaxInt64).no(store.Never, "ever"), record(1).fails(spend.ErrAmount), shows(math.MaxInt64, 0, 0),
			},
		},
		{
			name:  "more than a leaky bucket counts",
			why:   "above 2^53 a bucket would round the sum, and the figures would differ from the entries",
			rules: []spend.Rule{spend.Leaky("leaky", money(most), 30*days), spend.Lifetime("ever", money(math.MaxInt64))},
			steps: []step{
				authorize("first", 10), authorize("second", 1), capture("first", 4), shows(4, 7, most-11),
				decrease("first", 1), shows(4, 6, most-10), void("first"), void("second"), shows(4, 0, most-4),
				charge(3).as("small"), authorize("hold", 10),
				record(most - 16).fails(spend.ErrAmount), record(most - 16).ago(time.Hour).fails(spend.ErrAmount),
				record(most - 16).to("other").and(spend.Account{Budget: "more than a leaky bucket counts", Name: "card"}).
					fails(spend.ErrAmount),
				capture("hold", most-6).forced().fails(spend.ErrAmount), shows(7, 10, most-17),
				shows(7, 10, math.MaxInt64-17, "ever"), record(most - 17), shows(most-10, 10, 0),
				record(1).fails(spend.ErrAmount), capture("hold", 11).forced().fails(spend.ErrAmount),
				check(func(s *fixture) {
					// A sum of 2^53+1 rounds to 2^53, which would fit.
					for _, n := range []int64{1, 2, most} {
						d, err := charge(n).in(s).Send(ctx, s.b)
						if err != nil || d.Approved || len(d.Declines) != 1 || d.Declines[0].Rule != "leaky" {
							s.Errorf("a charge of %d: %+v, %v; want a decline by the bucket, which is full", n, d, err)
						}
					}
				}),
				capture("hold", 10).forced(), record(1).fails(spend.ErrAmount), refund("small", 3), shows(most-3, 0, 3),
				record(3), after(31 * days), shows(0, 0, most), record(most), record(most).fails(spend.ErrAmount), sound(16),
			},
		},
		{
			name: "a hold expires without a background job", why: "the next decision judges the expiry, once",
			rules: []spend.Rule{month(1000), leaky(1024)},
			steps: []step{
				authorize("h", 1000).lasting(time.Hour), extend("h", time.Hour), after(time.Hour - time.Microsecond),
				charge(100).no(time.Microsecond, "month", "leaky"), after(time.Microsecond), shows(0, 0, 1000, "month"),
				shows(0, 0, 1024, "leaky"), capture("h", 1).fails(spend.ErrHoldExpired), void("h").fails(spend.ErrHoldExpired),
				increase("h", 1).fails(spend.ErrHoldExpired), charge(900), shows(900, 0, 100, "month"), sound(5),
			},
		},
		{
			name: "either all accounts are charged or none", rules: []spend.Rule{month(1000)},
			why: "a spend of a team's card counts for the card and the team, whose budget has other rules",
			steps: []step{
				check(func(s *fixture) {
					team := spend.Budget{Name: also.Budget, Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("team", money(500))}}
					card := s.budget(s.rules(), team)
					teams, err := card.ForBudget(ctx, team.Name)
					if err != nil {
						s.Fatal(err)
					}
					s.processes[""], s.processes["team"] = card, teams
				}),
				by(""), charge(100).and(also), charge(401).and(also).no(store.Never, "team"), shows(100, 0, 900),
				by("team"), shows(100, 0, 400), by(""), authorize("h", 400).and(also).lasting(time.Hour),
				by("team"), shows(100, 400, 0), by(""), capture("h", 150), by("team"), shows(250, 250, 0),
				// Each account ends its own share of the hold at its next decision.
				by(""), after(2 * time.Hour), charge(1), shows(251, 0, 749), by("team"), shows(250, 0, 250), charge(250),
				by(""), refund("h", 150), by("team"), shows(350, 0, 150),
			},
		},
		{
			name: "an ID belongs to one request", rules: []spend.Rule{month(1000)},
			why: "other content under the same ID is a mistake of the caller and no retry",
			steps: []step{
				authorize("r", 100).with("merchant", "a"), authorize("r", 101).with("merchant", "a").fails(spend.ErrIDReused),
				authorize("r", 100).with("merchant", "a").to("another card").fails(spend.ErrIDReused),
				authorize("r", 100).with("merchant", "b").fails(spend.ErrIDReused),
				authorize("r", 100).with("merchant", "a").lasting(time.Hour).fails(spend.ErrIDReused),
				charge(100).as("r").with("merchant", "a").fails(spend.ErrIDReused),
				capture("r", 1).as("r").fails(spend.ErrIDReused), authorize("r", 100).with("merchant", "a").again(),
				upTo(1000).down(money(1)).as("u"), upTo(1000).down(money(2)).as("u").fails(spend.ErrIDReused),
				freeze("lost").as("f"), freeze("lost").as("f").again(), freeze("stolen").as("f").fails(spend.ErrIDReused),
				limit(spend.RuleLimit{Rule: "month", Amount: money(999)}).as("l"),
				limit(spend.RuleLimit{Rule: "month", Amount: money(998)}).as("l").fails(spend.ErrIDReused),
				shows(900, 100, -1), sound(4),
			},
		},
		{
			name: "a request is its meaning", rules: []spend.Rule{month(1000)},
			why: "whoever writes the same payment in another way repeats it, and a new ID would pay twice",
			steps: []step{
				authorize("r", 100).with("merchant", "a").and(one, two), authorize("r", 100).with("merchant", "a").and(two, one).again(),
				authorize("r", 100).with("merchant", "a", "shop", "").and(one, two).again(),
				authorize("r", 100).with("merchant", "a").and(one, two).lasting(7 * days).again(),
				authorize("r", 100).with("merchant", "a").and(one, two).released().again(),
				authorize("r", 100).with("merchant", "a").and(one).fails(spend.ErrIDReused),
				authorize("r", 100).to("1").with("merchant", "a").and(two).fails(spend.ErrIDReused),
				authorize("s", 100).lasting(time.Hour), authorize("s", 100).again(), authorize("s", 100).lasting(2 * time.Hour).fails(spend.ErrIDReused),
				authorize("s", 100).spent().fails(spend.ErrIDReused), charge(50).as("c").with("shop", ""), charge(50).as("c").again(),
				extend("s", 2*time.Hour).as("x"), extend("s", 0).as("x").again(), extend("s", time.Hour).as("x").fails(spend.ErrIDReused),
				extend("s", 2*time.Hour).as("x").released().fails(spend.ErrIDReused), sound(5),
			},
		},
		{
			name: "an authorization of nothing",
			rules: []spend.Rule{
				month(1000), spend.Count("often", 3, 30*days), spend.Count("small", 3, 30*days).MatchingAtMost(money(5)),
				spend.Count("large", 3, 30*days).MatchingAtLeast(money(1)), spend.Count("all", 4, 30*days).CountsVoids(), leaky(1024),
			},
			why: "a network asks about a card by 0.00, and who tries cards does the same",
			steps: []step{
				authorize("z", 0), authorize("z", 0).again(), shows(0, 0, 1000), shows(1, 0, 2, "often"), shows(1, 0, 2, "small"), shows(0, 0, 3, "large"),
				gives("z", "captured", 0, 0, 0), void("z").fails(spend.ErrHoldEnded), increase("z", 1).fails(spend.ErrHoldEnded),
				capture("z", 1).fails(spend.ErrHoldEnded), refund("z", 1).fails(spend.ErrExceeds), after(8 * days), prune(0, 0), shows(1, 0, 2, "often"),
				cancel("z"), shows(0, 0, 3, "often"), shows(1, 0, 3, "all"), authorize("z", 0).canceled(), record(1).as("z").canceled(),
				capture("z", 7).forced(), shows(7, 0, 993), shows(1, 0, 2, "often"), shows(1, 0, 3, "all"),
				authorize("y", 0), authorize("x", 0), authorize("w", 0).no(30*days, "often", "small"), freeze("lost"), authorize("v", 0).no(store.Never, "", "often", "small"),
				authorize("u", 0).forced(), shows(4, 0, -1, "often"), charge(0).fails(spend.ErrAmount), authorize("t", -1).fails(spend.ErrAmount), sound(9),
			},
		},
		{
			name: "tags that vary", rules: []spend.Rule{month(1000), spend.Rolling("a", money(1000), days).Matching("trace", "1")},
			why: "a network numbers its messages anew when it repeats one, and that is a retry all the same",
			steps: []step{
				charge(100).as("r").with("merchant", "a", "trace", "1").varying("trace", "hop"),
				charge(100).as("r").with("merchant", "a", "trace", "2").varying("trace", "hop").again(),
				charge(100).as("r").with("merchant", "a", "hop", "2").varying("hop", "trace").again(), shows(100, 0, 900, "a"),
				charge(100).as("r").with("merchant", "b", "trace", "1").varying("trace", "hop").fails(spend.ErrIDReused),
				charge(100).as("r").with("merchant", "a", "trace", "1").fails(spend.ErrIDReused),
				charge(100).as("r").with("merchant", "a", "trace", "1", "other", "2").varying("trace").fails(spend.ErrIDReused),
				credit(5).as("c").with("trace", "1").varying("trace"), credit(5).as("c").varying("trace").again(), sound(2),
			},
		},
		{
			name: "a count of attempts",
			rules: []spend.Rule{
				spend.Count("attempts", 4, time.Hour).CountsDeclines().Per("merchant"), spend.PerTransaction("single", money(10)),
				spend.Count("large", 1, time.Hour).CountsDeclines().MatchingAtLeast(money(40)), spend.CountPer("spends", 4, spend.Day, time.UTC),
			},
			why: "who tests the numbers of cards is declined mostly, and must wait after some attempts, and longer if he goes on",
			steps: []step{
				charge(1), charge(11).as("d").no(store.Never, "single"), charge(11).as("d").no(store.Never, "single").again(), able(11).no(store.Never, "single"),
				authorize("h", 1), increase("h", 10).no(store.Never, "single"), shows(3, 0, 1), after(time.Minute),
				upTo(50).down(money(12)).no(store.Never, "single"), shows(4, 0, 0), able(1).no(59*time.Minute, "attempts"),
				charge(1).no(59*time.Minute, "attempts"), charge(1).no(59*time.Minute, "attempts"), charge(1).no(time.Hour, "attempts"),
				charge(1).with("merchant", "other"),
				after(59 * time.Minute), charge(1).no(time.Minute, "attempts"), after(time.Hour), charge(1), shows(1, 0, 3),
				freeze("lost"), check(func(s *fixture) {
					if d, err := charge(1).in(s).Send(ctx, s.b); err != nil || d.Approved {
						s.Errorf("a charge of a frozen account: %+v, %v", d, err)
					}
				}), shows(2, 0, 2), shows(4, 0, 0, "spends"), sound(13),
			},
		},
		{
			name: "a decline is told again", rules: []spend.Rule{month(50), spend.Lifetime("ever", money(100))},
			why: "a retry has the rules and the accounts that refused the first request",
			steps: []step{authorize("h", 10), check(func(s *fixture) {
				for _, c := range []struct {
					frozen   string
					n        int64
					declines int
				}{{"", 45, 1}, {"", 60, 2}, {"", 101, 4}, {"team", 1, 1}, {"", 60, 3}, {"card", 1, 2}} {
					if c.frozen != "" {
						freeze("lost " + c.frozen).to(c.frozen).do(s)
					}
					r := charge(c.n).and(spend.Account{Budget: s.c.name, Name: "team"}).in(s)
					first, err := r.Send(ctx, s.b)
					again, err2 := r.Send(ctx, s.b)
					if errors.Join(err, err2) != nil || len(first.Declines) != c.declines {
						s.Errorf("%d units: %+v, %v, and again %v; want %d declines", c.n, first, err, err2, c.declines)
					}
					again.Replayed = false
					if d := differ.Fields(again, first); d != "" {
						s.Errorf("%d units, again:\n%s", c.n, d)
					}
				}
			}), sound(8)},
		},
		{
			name: "a decline that fills a rule", rules: []spend.Rule{spend.Count("attempts", 2, time.Hour).CountsDeclines(), spend.Rolling("minute", money(10), time.Minute)},
			why: "RetryAfter tells when all rules agree, and the decline is an attempt itself",
			steps: []step{check(func(s *fixture) {
				for _, c := range []call{charge(1), authorize("z", 0).to("other")} {
					record(11).to(c.Account).do(s)
					d, err := c.in(s).Send(ctx, s.b)
					if err != nil || len(d.Declines) != 1 || d.Declines[0].RetryAfter != time.Minute || d.RetryAfter != time.Hour {
						s.Errorf("%+v, %v; want a decline by the minute, and RetryAfter of the hour", d, err)
					}
				}
			}), after(time.Hour), charge(1)},
		},
		{
			name:  "a count that forgives no void",
			rules: []spend.Rule{spend.Count("all", 6, 30*days).CountsVoids(), spend.Count("often", 6, 30*days)},
			why:   "who voids each authorization makes no room for the next",
			steps: []step{
				authorize("v", 1), void("v"), authorize("e", 1).lasting(time.Hour), authorize("s", 1).lasting(time.Hour).spent(),
				authorize("c", 1), increase("c", 1), capture("c", 1), charge(1).as("x"), refund("x", 1), cancel("x"), shows(5, 0, 1),
				after(2 * time.Hour), capture("e", 1).forced(), capture("v", 1).forced(), shows(5, 0, 1), shows(4, 0, 2, "often"),
				record(1).ago(days), charge(1).no(29*days, "all"), shows(6, 0, 0), sound(16),
			},
		},
		{
			name: "a refund of more than was captured",
			why:  "the merchant has sent the money, and no refund makes room beyond what was used",
			rules: []spend.Rule{
				spend.Calendar("net", money(1000), spend.Year, time.UTC).CountsCredits().MatchingAtLeast(money(50)).Per("merchant"),
				month(1000), spend.Lifetime("ever", money(1000)).CountsCredits(), spend.Leaky("slow", money(1000), 1000*days).CountsCredits(),
			},
			steps: []step{
				charge(70).with("merchant", "b"), charge(50).as("s").with("merchant", "a"), charge(60).with("merchant", "a"), after(days),
				refund("s", 51).fails(spend.ErrExceeds), refund("s", 20), refund("s", 50).forced().as("r"), refund("s", 50).forced().as("r").again(),
				refund("s", 50).as("r").fails(spend.ErrIDReused), gives("s", "charged", 0, 50, 50),
				shows(40, 0, 960), shows(130, 0, 870, "month"), shows(110, 0, 890, "ever"), shows(109, 0, 891, "slow"),
				refund("s", 300).forced(), shows(70, 0, 930), shows(130, 0, 870, "month"), shows(0, 0, 1000, "ever"), shows(0, 0, 1000, "slow"),
				authorize("h", 80), refund("h", 1).fails(spend.ErrExceeds), refund("h", 30).forced(), capture("h", 80), shows(80, 0, 920, "ever"), sound(10),
			},
		},
		{
			name: "a refund that is taken back",
			why:  "the money counts again where the refund has taken it from, the parts in the reverse order; it has moved, so no rule declines it",
			rules: []spend.Rule{
				month(1000), spend.Leaky("slow", money(1000), 1000*days), spend.Lifetime("net", money(1000)).CountsCredits(), spend.Count("often", 9, 90*days),
			},
			steps: []step{
				authorize("s", 30), reverse("s", 1).fails(spend.ErrExceeds), after(2 * days), increase("s", 20), capture("s", 50).last(),
				refund("s", 40), reverse("s", 41).fails(spend.ErrExceeds), reverse("s", 25).as("v"), reverse("s", 25).as("v").again(),
				reverse("s", 24).as("v").fails(spend.ErrIDReused), shows(35, 0, 965), shows(35, 0, 965, "slow"), shows(35, 0, 965, "net"),
				gives("s", "captured", 0, 50, 15), freeze("lost"), reverse("s", 5), on("unfreeze", 0), shows(40, 0, 960), sound(11),
				after(28 * days), shows(10, 0, 990), reverse("s", 10), shows(20, 0, 980), shows(22, 0, 978, "slow"), gives("s", "captured", 0, 50, 0),
				credit(50), shows(0, 0, 1000, "net"), refund("s", 50), shows(0, 0, 1000, "net"), reverse("s", 50), shows(50, 0, 950, "net"),
				after(2 * days), charge(900).as("big"), refund("big", 900), charge(950), reverse("big", 900), shows(1850, 0, -850), shows(3, 0, 6, "often"),
				refund("big", 1), cancel("big"), reverse("big", 1).fails(spend.ErrExceeds), capture("big", 1).forced(), refund("big", 1),
				reverse("big", 1).fails(spend.ErrExceeds), reverse("none", 1).fails(spend.ErrUnknownSpend),
				record(10).as("f"), refund("f", 15).forced(), reverse("f", 11).fails(spend.ErrExceeds), reverse("f", 10), shows(960, 0, 40),
				sound(29),
			},
		},
		{
			name: "a late refund", rules: []spend.Rule{spend.Lifetime("net", money(1000)).CountsCredits(), spend.Lifetime("ever", money(1000))},
			why: "the ledger has forgotten the spend, so a credit takes the place of the refund, in the rules that count credits",
			steps: []step{
				charge(300).as("tv"), after(91 * days), prune(0, 1), refund("tv", 100).fails(spend.ErrUnknownSpend),
				refund("tv", 100).forced().fails(spend.ErrUnknownSpend), credit(100), shows(200, 0, 800), shows(300, 0, 700, "ever"), sound(1),
			},
		},
		{
			name:  "a new rule counts earlier entries",
			why:   "otherwise a new limit would ignore earlier spends; only a Leaky rule starts empty, as documented",
			rules: []spend.Rule{single},
			others: map[string][]spend.Rule{"after": {
				spend.Rolling("week", money(1000), 7*days), spend.Rolling("day", money(1000), days),
				spend.Lifetime("travel", money(1000)).Matching("category", "travel"), spend.Count("often", 10, 7*days),
				spend.Calendar("month", money(1000), spend.Month, time.UTC), leaky(1024),
				spend.Calendar("large", money(1000), spend.Year, time.UTC).MatchingAtLeast(money(400)),
			}},
			steps: []step{
				authorize("h", 300).with("category", "travel"), after(2 * days), charge(500), by("after"),
				shows(500, 300, 200, "week"), shows(500, 0, 500, "day"), shows(0, 300, 700, "travel"), shows(2, 0, 8, "often"),
				shows(500, 300, 200, "month"), shows(500, 0, 500, "large"), shows(0, 0, 1024, "leaky"),
				// The hold is older than the bucket, so its capture neither fills the bucket nor
				// releases units there.
				capture("h", 300), shows(0, 0, 1024, "leaky"), authorize("late", 24), shows(0, 24, 1000, "leaky"),
				shows(800, 24, 176, "week"), sound(4),
			},
		},
		{
			name: "periods that start at a time of their own",
			why:  "the days of a shop end when it closes, and the months of a card on its statement day",
			rules: []spend.Rule{
				spend.Calendar("evening", money(100), spend.Day, time.UTC).DayStarting(4 * time.Hour),
				spend.Calendar("statement", money(1000), spend.Month, time.UTC).MonthStarting(31).DayStarting(4 * time.Hour),
				spend.CountPer("visits", 9, spend.Week, time.UTC).WeekStarting(time.Sunday).DayStarting(12 * time.Hour),
			},
			steps: []step{ // 2026-03-01, a Sunday, at noon
				charge(60), after(16*time.Hour - time.Microsecond), charge(40), shows(100, 0, 0, "evening"),
				after(time.Microsecond), shows(0, 0, 100, "evening"), shows(2, 0, 7, "visits"),
				after(6*days + 8*time.Hour), shows(0, 0, 9, "visits"), shows(100, 0, 900, "statement"),
				after(22*days + 16*time.Hour - time.Microsecond), shows(100, 0, 900, "statement"),
				after(time.Microsecond), shows(0, 0, 1000, "statement"), sound(2),
			},
		},
		{
			name: "a Leaky rule whose rate changes", rules: []spend.Rule{single},
			why:    "the time until the next decision leaks at the rate of before; a rule that returns starts empty",
			others: map[string][]spend.Rule{"usual": {leaky(1024)}, "doubled": {leaky(2048)}},
			steps: []step{
				by("usual"), charge(1000), raise("leaky", 4096, 50*time.Second), after(100 * time.Second),
				by("doubled"), shows(1000-200-50, 0, 2048-750), charge(1), by(""), by("doubled"),
				after(100 * time.Second), by("usual"), shows(551, 0, 473), by(""), charge(1), by("usual"), shows(0, 0, 1024), sound(4),
			},
		},
		{
			name: "no credit is declined", why: "the money has come in; it is idempotent as all requests, and begins no spend",
			rules: []spend.Rule{spend.Calendar("day", money(100), spend.Day, time.UTC).CountsCredits()},
			steps: []step{
				charge(100), freeze("lost"), credit(30).as("c"), shows(70, 0, 30), credit(30).as("c").again(), shows(70, 0, 30),
				record(30).as("c").fails(spend.ErrIDReused), refund("c", 1).fails(spend.ErrUnknownSpend),
				credit(0).fails(spend.ErrAmount), check(func(s *fixture) {
					if x, err := s.b.Get(ctx, s.named("c")); err != nil || x.Spend != nil || !x.Decision.Approved {
						s.Errorf("Get: %+v, %v; want an approval without a spend", x, err)
					}
				}), credit(200), shows(0, 0, 100), sound(4),
			},
		},
		{
			name: "a rule counts no credit from before it counted credits", rules: []spend.Rule{single},
			why: "nobody knows what it had used then; and a credit that is counted stays counted",
			others: map[string][]spend.Rule{
				"before": {spend.Lifetime("a", money(1000)).CountsCredits(), spend.Lifetime("b", money(1000))},
				"after": {
					spend.Lifetime("a", money(1000)), spend.Lifetime("b", money(1000)).CountsCredits(),
					spend.Calendar("c", money(1000), spend.Year, time.UTC).CountsCredits(),
				},
				"other": {spend.Calendar("a", money(1000), spend.Month, time.UTC).CountsCredits()},
			},
			steps: []step{
				by("before"), charge(500), credit(100), by("after"), shows(400, 0, 600, "a"), shows(500, 0, 500, "b"),
				shows(500, 0, 500, "c"), credit(10), shows(400, 0, 600, "a"), shows(490, 0, 510, "b"), shows(490, 0, 510, "c"),
				by("other"), shows(500, 0, 500), sound(3),
			},
		},
		{
			name: "a rule that returns counts no earlier credit", rules: []spend.Rule{single},
			why:    "the account has forgotten the rule, and the entries do not tell for which units a credit has paid",
			others: map[string][]spend.Rule{"with": {spend.Calendar("all", money(1000), spend.Year, time.UTC).CountsCredits()}},
			steps: []step{
				by("with"), charge(500), credit(200), by(""), by("with"), shows(300, 0, 700), // no decision was without it
				by(""), charge(1), by("with"), shows(501, 0, 499), credit(3), shows(498, 0, 502), sound(4),
			},
		},
	}
}

// fine returns millionths of a cent.
func fine(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR:8"} }

const cent = 1_000_000

// scaleCases are about budgets that count in units finer than the minor unit of their currency.
func scaleCases() []testCase {
	rules := []spend.Rule{
		spend.Rolling("day", money(10_00), days), spend.Leaky("smooth", money(20_00), days),
		spend.PerTransaction("single", fine(500*cent)), spend.Count("often", 9, days),
	}
	amount := func(c call, want spend.Money) check {
		return func(s *fixture) {
			s.Helper()
			if d := c.decide(s); d.Amount != want {
				s.Errorf("%s of %v moved %v; want %v", c.Method, c.Amount, d.Amount, want)
			}
		}
	}
	return []testCase{
		{
			name: "units finer than cents", currency: "EUR:8", rules: rules,
			why: "prices of tokens are fractions of a cent, which add up exactly",
			steps: []step{
				charge(0).paid(fine(315)), amount(charge(2_50).as("c"), fine(250*cent)),
				amount(charge(0).as("c").paid(spend.Money{Minor: 25_000, Currency: "EUR:4"}).again(), fine(250*cent)),
				charge(0).as("c").paid(spend.Money{Minor: 25_001, Currency: "EUR:4"}).fails(spend.ErrIDReused),
				shows(315+250*cent, 0, 750*cent-315, "day"), shows(315+250*cent, 0, 1750*cent-315, "smooth"),
				amount(authorize("h", 0).paid(fine(100*cent+1)), fine(100*cent+1)), amount(increase("h", 1), fine(cent)),
				capture("h", 0).paid(fine(101*cent + 2)).fails(spend.ErrExceeds),
				amount(decrease("h", 0).paid(fine(cent+1)), fine(cent+1)), amount(capture("h", 40).last(), fine(40*cent)),
				amount(refund("h", 0).paid(fine(40*cent-7)), fine(40*cent-7)),
				shows(322+250*cent, 0, 750*cent-322, "day"),
				amount(upTo(100_00).down(spend.Money{Minor: 1, Currency: "EUR:3"}), fine(500*cent)),
				amount(charge(0).paid(fine(250*cent-321)).no(days, "day"), spend.Money{}), charge(0).paid(fine(250*cent - 322)),
				shows(1000*cent, 0, 0, "day"),
				check(func(s *fixture) {
					for _, e := range s.history(nil) {
						if e.Used.Currency != "EUR:8" || e.Amount.Currency != "EUR:8" {
							s.Errorf("entry %+v; want amounts with the scale of the budget", e)
						}
					}
					status, err := s.b.Get(ctx, s.named("h"))
					if err != nil || status.Spend.Captured != fine(40*cent) || status.Spend.Refunded != fine(40*cent-7) {
						s.Errorf("the hold is %+v, %v", status.Spend, err)
					}
				}), sound(12),
			},
		},
		{
			name: "nothing is rounded", why: "an amount that the budget cannot count exactly is refused, and named",
			currency: "EUR:8", rules: rules,
			steps: []step{authorize("h", 100), check(func(s *fixture) {
				for name, m := range map[string]spend.Money{
					"finer than":            {Minor: 11, Currency: "EUR:9"},
					"the largest amount is": money(math.MaxInt64 / 100),
				} {
					for _, method := range slices.Concat(payments, corrections) {
						r := Request{
							Method: method, ID: s.named(""), Of: s.named("h"), Account: "card", Amount: m, Least: fine(1), Force: true,
						}
						if d, err := r.Send(ctx, s.b); !errors.Is(err, spend.ErrAmount) || !strings.Contains(err.Error(), name) {
							s.Errorf("%s of %#v: %+v, %v; want ErrAmount that says %q", method, m, d, err, name)
						}
					}
				}
			}), shows(0, 100*cent, 900*cent)},
		},
		{
			name: "the unit of a budget cannot change", rules: []spend.Rule{month(1000)},
			why: "the stored figures would become a million times as large, or as small",
			steps: []step{authorize("h", 100), check(func(s *fixture) {
				for _, currency := range []string{"EUR:8", "USD"} {
					unit := spend.Money{Minor: 1, Currency: currency}
					b := spend.Budget{Name: s.c.name, Currency: currency, Revision: 9, Rules: []spend.Rule{spend.Rolling("day", unit, days)}}
					if _, err := spend.New(ctx, s.l, b, nil); !errors.Is(err, spend.ErrCurrency) {
						s.Errorf("New in %s: %v; want ErrCurrency", currency, err)
					}
				}
			}), by(""), shows(0, 100, 900)},
		},
	}
}
