package spendtest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// revisionOf returns rules for the budget of the case.
func (s *fixture) revisionOf(n int64, rules ...spend.Rule) spend.Budget {
	return spend.Budget{Name: s.c.name, Currency: "EUR", Revision: n, Rules: rules}
}

// starts makes budgets with rules, and wants an error, whose text has a part, or none.
func (s *fixture) starts(b spend.Budget, want error, part string) *spend.Budgets {
	s.Helper()
	budgets, err := spend.New(ctx, s.l, b, nil)
	s.failed("New", err, want, part)
	return budgets
}

// sets sets rules, and wants an error, whose text has a part, or none.
func (s *fixture) sets(b spend.Budget, o *spend.SetRulesOptions, want error, part string) {
	s.Helper()
	s.failed("SetRules", s.b.SetRules(ctx, b, o), want, part)
}

func (s *fixture) failed(call string, err, want error, part string) {
	s.Helper()
	if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), part) {
		s.Fatalf("%s: %v; want %v with %q", call, err, want, part)
	}
}

// revisions wants the numbers of all revisions, newest first.
func revisions(want ...int64) check {
	return func(s *fixture) {
		s.Helper()
		list, err := collect(s.b.Rules(ctx))
		var got []int64
		for _, r := range list {
			got = append(got, r.Rules.Revision)
		}
		if err != nil || !slices.Equal(got, want) {
			s.Fatalf("the revisions are %d, %v; want %d", got, err, want)
		}
	}
}

// rulebookCases are about the rules by which programs decide.
func rulebookCases() []testCase {
	one := func(n int64) spend.Rule { return spend.PerTransaction("one", money(n)) }
	ever := spend.Lifetime("ever", money(1000))
	slow := spend.Leaky("slow", money(1024), 1<<20*time.Second)
	also := spend.Account{Budget: "team of the command", Name: "eng"}
	return []testCase{
		{
			name: "the newest rules hold", rules: []spend.Rule{one(10)},
			why: "during a rollout old and new programs decide about the same cards, and a rollback of the program does not bring old rules back",
			steps: []step{check(func(s *fixture) {
				old := s.b
				charge(11).no(store.Never, "one").do(s)
				newer := s.starts(s.revisionOf(1, one(20)), nil, "")
				for _, s.b = range []*spend.Budgets{old, newer, s.starts(s.revisionOf(0, one(10)), nil, ""), s.starts(s.revisionOf(1, one(20)), nil, "")} {
					charge(20).do(s)
					charge(21).no(store.Never, "one").do(s)
				}
				s.starts(s.revisionOf(1, one(30)), spend.ErrBudget, `revision 1 of budget "the newest rules hold": rule "one" differs`)
				s.starts(s.revisionOf(1, one(20), month(5)), spend.ErrBudget, `rule "month" is not in the ledger`)
				s.starts(s.revisionOf(-1, one(20)), spend.ErrBudget, "revision")
				s.sets(s.revisionOf(0, one(10)), nil, spend.ErrBudget, "revision 1")
				s.sets(s.revisionOf(1, one(10)), nil, spend.ErrBudget, "differs")
				s.sets(s.revisionOf(1, one(20)), nil, nil, "")
				s.sets(s.revisionOf(7, one(40)), &spend.SetRulesOptions{By: "Ann", Reason: "Übermut"}, nil, "")
				s.sets(spend.Budget{Name: "other", Currency: "EUR", Rules: s.c.rules}, nil, spend.ErrRequest, "other")
				s.sets(spend.Budget{Name: s.c.name, Currency: "USD", Revision: 8, Rules: []spend.Rule{spend.PerTransaction("one", spend.Money{Minor: 1, Currency: "USD"})}}, nil, spend.ErrCurrency, "another name")
				s.sets(s.revisionOf(8, one(1)), &spend.SetRulesOptions{Reason: "a\nb"}, spend.ErrRequest, "reason")
				s.b = old
				charge(40).do(s)
				list, err := collect(s.b.Rules(ctx))
				if err != nil || len(list) != 3 || list[0].By != "Ann" || list[0].Reason != "Übermut" || list[0].Held || list[1].By != "New" ||
					!list[0].At.Equal(s.clock.now()) || list[0].Rules.Rules == nil || list[0].Rules.Revision != 7 {
					s.Errorf("the revisions are %+v, %v", list, err)
				}
			}), revisions(7, 1, 0)},
		},
		{
			name: "rules that are held", rules: []spend.Rule{one(10)},
			why: "whoever changes rules by hand does not lose them to the next deploy, which is told so",
			steps: []step{check(func(s *fixture) {
				s.sets(s.revisionOf(1, one(20)), &spend.SetRulesOptions{Hold: true}, nil, "")
				var told bytes.Buffer
				b, err := spend.New(ctx, s.l, s.revisionOf(5, one(30)), &spend.Options{Logger: slog.New(slog.NewTextHandler(&told, nil))})
				if err != nil || !strings.Contains(told.String(), "differs") {
					s.Fatalf("New beside rules that are held: %v; it has logged %q", err, told.String())
				}
				s.starts(s.revisionOf(1, one(30)), nil, "")
				s.b = b
				charge(20).do(s)
				charge(21).no(store.Never, "one").do(s)
				s.sets(s.revisionOf(2, one(21)), nil, nil, "") // stays held
				s.starts(s.revisionOf(5, one(30)), nil, "")
				charge(22).no(store.Never, "one").do(s)
				s.sets(s.revisionOf(3, one(21)), &spend.SetRulesOptions{Release: true}, nil, "")
				s.starts(s.revisionOf(5, one(30)), nil, "")
				charge(30).do(s)
			}), revisions(5, 3, 2, 1, 0)},
		},
		{
			name: "figures that no entry can restore", rules: []spend.Rule{one(10), ever, slow},
			why: "a rule that vanishes by a slip makes room for ever",
			steps: []step{check(func(s *fixture) {
				s.sets(s.revisionOf(1, one(10), slow), nil, spend.ErrBudget, `"ever"`)
				s.sets(s.revisionOf(1, one(10), ever, slow.Matching("a", "b")), nil, spend.ErrBudget, `"slow"`)
				s.sets(s.revisionOf(1, one(10), ever.Per("tag"), slow), nil, spend.ErrBudget, "Retired")
				s.sets(s.revisionOf(1, spend.Count("one", 5, days), ever, slow), nil, spend.ErrBudget, "another name")
				s.starts(s.revisionOf(1, one(10)), spend.ErrBudget, "Retired")
				charge(7).do(s)
				b := s.revisionOf(1, one(10), spend.Leaky("slow", money(512), 1<<20*time.Second))
				b.Retired = []string{"ever"}
				s.sets(b, nil, nil, "")
				s.shows(7, 0, 505, "slow")
				s.sets(s.revisionOf(2, one(10), ever, slow), nil, nil, "") // no decision was without it
				s.shows(7, 0, 993, "ever")
			}), sound(1)},
		},
		{
			name: "a plan that accounts have", rules: []spend.Rule{one(10)}, plans: map[string][]spend.Rule{"gold": {one(100)}, "tin": {one(1)}},
			why: "an account without rules would be declined, or go without them",
			steps: []step{plan("gold"), check(func(s *fixture) {
				b := s.revisionOf(1, one(10))
				s.sets(b, nil, spend.ErrBudget, `"gold"`)
				b.Plans = map[string][]spend.Rule{"gold": {one(50)}}
				s.sets(b, nil, nil, "")
				plan("tin").fails(spend.ErrBudget).do(s)
				charge(51).no(store.Never, "one").do(s)
				plan("").do(s)
				s.sets(s.revisionOf(2, one(10)), nil, nil, "")
			}), revisions(2, 1, 0), sound(3)},
		},
		{
			name: "figures of a plan that the account has left", rules: []spend.Rule{month(1000)},
			plans: map[string][]spend.Rule{"gold": {month(1000), ever, slow, spend.Calendar("year", money(1000), spend.Year, time.UTC).CountsCredits()}},
			why:   "who comes back has used the money that was used meanwhile, and no more",
			steps: []step{
				plan("gold"), charge(100), credit(40), shows(60, 0, 940, "year"), plan(""), authorize("h", 30), capture("h", 20), after(1 << 15 * time.Second),
				charge(8), plan("gold"), shows(128, 10, 862, "ever"), shows(88, 10, 902, "year"), shows(96, 10, 918, "slow"), plan(""), void("h"), plan("gold"),
				shows(128, 0, 872, "ever"), shows(96, 0, 928, "slow"), sound(11),
			},
		},
		{
			name: "a program without rules", rules: []spend.Rule{month(1000)},
			why: "a command knows the name of a budget, and finds those to which its spends were charged, too",
			steps: []step{check(func(s *fixture) {
				_, err := spend.Open(ctx, s.l, "nobody's", nil)
				s.failed("Open", err, spend.ErrRequest, "nobody's")
				_, err = spend.Open(ctx, s.l, s.c.name, &spend.Options{Budgets: []spend.Budget{s.rules()}})
				s.failed("Open with rules", err, spend.ErrBudget, "Options.Budgets")
				s.budget(spend.Budget{Name: also.Budget, Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("team", money(500))}})
				charge(1).and(also).fails(nil).do(s)
				authorize("h", 100).and(also).do(s)
				b, err := spend.Open(ctx, s.l, s.c.name, nil)
				s.failed("Open", err, nil, "")
				s.b = b
				capture("h", 100).do(s)
				charge(500).and(also).no(store.Never, "team").do(s)
				charge(1).and(spend.Account{Budget: "nobody's", Name: "a"}).fails(spend.ErrRequest).do(s)
				if teams, err := b.ForBudget(ctx, also.Budget); err != nil || teams.Verify(ctx, also.Name) != nil {
					s.Errorf("the team's budget: %v", err)
				}
			}), shows(101, 0, 899), sound(4)},
		},
		{
			name: "rules of a lost transaction", rules: []spend.Rule{one(10)},
			why: "another program may store other rules under their number, and a process that has decided by them must not mistake those",
			steps: []step{check(func(s *fixture) {
				if s.h.Crash == nil {
					return // nothing of this ledger is ever lost
				}
				s.h.Crash(s, s.l, func(l ledger.Ledger) {
					lost := s.b.With(l)
					_ = lost.SetRules(ctx, s.revisionOf(1, one(100)), nil)
					_, _ = charge(50).in(s).Send(ctx, lost)
				})
				charge(11).no(store.Never, "one").do(s)
				s.starts(s.revisionOf(1, one(20)), nil, "")
				charge(21).no(store.Never, "one").do(s)
				charge(20).do(s)
			})},
		},
		{
			name: "a rule in the shadow", rules: []spend.Rule{month(100), spend.Rolling("draft", money(50), days).Shadow(), spend.Count("tries", 1, days).Shadow().CountsDeclines()},
			others: map[string][]spend.Rule{"live": {month(100), spend.Rolling("draft", money(50), days)}},
			why:    "a rule is tried on live traffic before it judges, and goes on from its figures then",
			steps: []step{charge(40), check(func(s *fixture) {
				shadow := func(c call, want ...string) {
					s.Helper()
					for range 2 {
						d, err := c.in(s).Send(ctx, s.b)
						var got []string
						for _, u := range d.Shadow {
							got = append(got, fmt.Sprint(u.Rule, " ", u.Used.Minor, " ", u.Remaining.Minor))
						}
						if err != nil || !slices.Equal(got, want) {
							s.Errorf("%s: in the shadow %q, %v; want %q", c.Method, got, err, want)
						}
					}
				}
				shadow(charge(20).as("c"), "draft 60 -10", "tries 2 -1")
				shadow(charge(41).as("d"), "draft 60 -10", "tries 3 -2") // declined by month
				shadow(record(1).as("r"), "draft 61 -11", "tries 4 -3")
				shadow(able(1), "draft 61 -11", "tries 4 -3")
				var got []string
				for _, e := range s.history(nil) {
					got = append(got, fmt.Sprint(e.Kind, e.Refused, e.Shadow))
				}
				if want := []string{"record[] [draft tries]", "decline[month] [draft tries]", "spend[] [draft tries]", "spend[] []"}; !slices.Equal(got, want) {
					s.Errorf("the entries are %q; want %q", got, want)
				}
			}), by("live"), charge(1).no(days, "draft"), shows(61, 0, -11, "draft"), sound(5)},
		},
		{
			name: "a threshold is lost in no rollout", rules: []spend.Rule{spend.Lifetime("ever", money(100))},
			why: "programs of before decide by the thresholds that a new one has set",
			steps: []step{check(func(s *fixture) {
				old := s.b
				charge(40).do(s)
				s.starts(s.revisionOf(1, spend.Lifetime("ever", money(100)).Thresholds(50, 80)), nil, "")
				s.b = old
				charge(20).tells("ever 50").do(s)
				s.sets(s.revisionOf(2, spend.Lifetime("ever", money(70)).Thresholds(50, 80)), nil, nil, "")
				charge(1).tells("ever 80").do(s)
			})},
		},
	}
}
