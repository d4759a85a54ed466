package spendtest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/spend"
)

// crossedCases are about the shares of limits that decisions tell.
func crossedCases() []testCase {
	shares := []int{50, 80, 100}
	day := spend.Calendar("day", money(100), spend.Day, time.UTC).Thresholds(shares...)
	ever := spend.Lifetime("ever", money(100))
	hour := spend.Rolling("hour", money(100), time.Hour).Thresholds(shares...)
	return []testCase{
		{
			name: "a share of a limit is told when it is crossed", rules: []spend.Rule{day},
			why: "the decision that crosses it tells it, also again after a refund, and a retry tells the same as the first answer",
			steps: []step{
				charge(49), charge(1).as("half").tells("day 50"), charge(1).as("half").again().tells("day 50"), charge(1).as("x"),
				refund("half", 1), refund("x", 1), charge(2).tells("day 50"), able(49), authorize("h", 29).tells("day 80"), void("h"), prune(0, 0),
				authorize("again", 29).tells("day 80"), charge(21).no(12*time.Hour, "day"), record(25).tells("day 100"), cancel("again"), charge(20).tells("day 80"),
				after(12 * time.Hour), charge(80).tells("day 50", "day 80"), after(days), charge(100).tells("day 50", "day 80", "day 100"), sound(15),
			},
		},
		{
			name: "a share of a window is told at each rise", rules: []spend.Rule{hour, spend.Count("often", 4, time.Hour).Thresholds(75), leaky(1024).Thresholds(10)},
			why: "who has fallen below a share crosses it again",
			steps: []step{
				charge(50).as("a").tells("hour 50"), refund("a", 1), charge(1).tells("hour 50"), after(time.Minute),
				charge(30).tells("hour 80", "often 75"), charge(1), after(59 * time.Minute), charge(48).tells("hour 50", "often 75"), charge(1).tells("hour 80"),
				after(time.Hour), charge(50).tells("hour 50"), record(60).tells("hour 80", "hour 100", "leaky 10"),
				after(time.Minute), record(1).tells("often 75"), charge(1).no(59*time.Minute, "hour"), sound(11),
			},
		},
		{
			name: "each request that uses more tells a share", rules: []spend.Rule{spend.Lifetime("ever", money(100)).Thresholds(10, 20, 30, 40, 50, 60, 70, 80, 90, 100)},
			why: "used and held money count, whoever moves it",
			steps: []step{
				authorize("h", 10).tells("ever 10"), increase("h", 10).tells("ever 20"), capture("h", 20), upTo(10).down(money(1)).tells("ever 30"),
				authorize("i", 1), capture("i", 10).forced().last().tells("ever 40"), capture("i", 10).forced().tells("ever 50"),
				record(10).tells("ever 60"), authorize("f", 10).forced().tells("ever 70"),
				check(func(s *fixture) {
					for i, want := range []string{"[ever 80]", "[]"} {
						r := []call{charge(10).as("together"), charge(9).as("another")}[i]
						a := s.b.ChargeAll(ctx, []spend.Request{r.in(s).money()})[0]
						if got := fmt.Sprint(crossed(a.Decision)); a.Err != nil || got != want {
							s.Errorf("ChargeAll: %+v, %v; want that it tells %s", a.Decision, a.Err, want)
						}
					}
				}),
				charge(1).tells("ever 90"), charge(11).no(7*days, "ever"), sound(15),
			},
		},
		{
			name: "shares of each value", rules: []spend.Rule{spend.Calendar("shops", money(100), spend.Day, time.UTC).Per("merchant").Thresholds(80, 50)},
			why: "each value has a limit of its own, and so have its shares",
			steps: []step{
				charge(50).with("merchant", "b").tells("shops=b 50"), charge(80).with("merchant", "a").as("a").tells("shops=a 50", "shops=a 80"),
				refund("a", 80), charge(80).with("merchant", "a").tells("shops=a 50", "shops=a 80"), charge(30).with("merchant", "b").tells("shops=b 80"), charge(50).tells("shops= 50"),
				limit(spend.RuleLimit{Rule: "shops", Amount: money(90)}), freeze("lost"), after(days), freeze("lost again"), sound(9),
			},
		},
		{
			name: "the limit of an account has shares", rules: []spend.Rule{hour.AtMost(money(1000)), day.AtMost(money(1000))},
			why: "an account hears of its own limit, also when a lower one makes the share of what is used larger",
			steps: []step{
				limit(spend.RuleLimit{Rule: "hour", Amount: money(1000)}, spend.RuleLimit{Rule: "day", Amount: money(1000)}), charge(490),
				limit(spend.RuleLimit{Rule: "hour", Amount: money(600)}, spend.RuleLimit{Rule: "day", Amount: money(600)}).
					tells("hour 50", "hour 80", "day 50", "day 80"),
				limit(spend.RuleLimit{Rule: "hour", Amount: money(1000)}, spend.RuleLimit{Rule: "day", Amount: money(1000)}),
				charge(310).tells("hour 50", "hour 80", "day 50", "day 80"),
				limit(spend.RuleLimit{Rule: "hour", Amount: money(0)}, spend.RuleLimit{Rule: "day", Amount: money(0)}), record(1),
				limit(spend.RuleLimit{Rule: "hour", Amount: money(1000)}, spend.RuleLimit{Rule: "day", Amount: money(1000)}), sound(8),
			},
		},
		{
			name: "a lower limit that ends has shares", rules: []spend.Rule{ever.Thresholds(50, 80)},
			why:   "a share of a small limit was reached, and not that share of the limit that is in force again",
			steps: []step{raise("ever", 10, time.Hour), charge(10).tells("ever 50", "ever 80"), after(time.Hour), charge(70).tells("ever 50", "ever 80")},
		},
		{
			name: "thresholds that change", rules: []spend.Rule{ever.Thresholds(50, 80)},
			others: map[string][]spend.Rule{
				"without": {ever}, "all": {ever.Thresholds(100)},
			},
			why: "the first decision with the thresholds tells a share that others have let pass",
			steps: []step{
				by("without"), charge(50), charge(5), by(""), charge(1).tells("ever 50"), by("all"), charge(44).tells("ever 100"),
				by(""), record(1), prune(0, 0), record(10), by("all"), record(1),
				by("without"), record(1), by(""), record(1).tells("ever 50", "ever 80"), sound(9),
			},
		},
		{
			name: "shares after a mend", rules: []spend.Rule{day, hour}, others: map[string][]spend.Rule{"other": {day, hour, month(1000)}},
			why: "entries of a wrong clock count from the mend on, and their shares have been told",
			steps: []step{
				charge(10), after(10 * days), charge(60).tells("day 50", "hour 50"), after(-10 * days), by("other"), mend("ahead"),
				by(""), charge(1), charge(10).tells("day 80", "hour 80"),
				by("other"), after(11 * days), charge(5), after(-10 * days), mend("ahead again"),
				by(""), charge(50).tells("day 50", "hour 50"), sound(8),
			},
		},
		{
			name: "racing for a share", rules: []spend.Rule{spend.Lifetime("ever", money(100)).Thresholds(shares...)},
			why: "of callers who cross a share together, one hears of it",
			steps: []step{check(func(s *fixture) {
				var mu sync.Mutex
				var all []string
				s.race(func(racer, i int) error {
					d, err := charge(1).as(fmt.Sprintf("%d/%d", racer, i)).in(s).Send(ctx, s.b)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, crossed(d)...)
					return err
				})
				if want := []string{"ever 50", "ever 80", "ever 100"}; !slices.Equal(all, want) {
					s.Errorf("the decisions have told %q; want %q", all, want)
				}
			}), shows(100, 0, 0)},
		},
	}
}

// crossed returns the shares that a decision tells: the rule, the value if there is one, and the
// share.
func crossed(d spend.Decision) (list []string) {
	for _, x := range d.Crossed {
		name := x.Rule
		if x.Tag != "" {
			name += "=" + x.Value
		}
		list = append(list, fmt.Sprint(name, " ", x.Share))
	}
	return list
}
