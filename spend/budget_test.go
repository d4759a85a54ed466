package spend_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

func TestBadBudgets(t *testing.T) {
	eur := func(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
	ok := spend.Lifetime("ok", eur(1))
	budget := func(rules ...spend.Rule) spend.Budget {
		return spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}
	}
	l := memledger.New(nil)
	for _, c := range []struct {
		name string
		b    spend.Budget
		o    *spend.Options
		says string
	}{
		{name: "no name", b: spend.Budget{Currency: "EUR", Rules: []spend.Rule{ok}}, says: "name"},
		{
			name: "a name with a slash", says: "without /",
			b: spend.Budget{Name: "a/b", Currency: "EUR", Rules: []spend.Rule{ok}},
		},
		{name: "no currency", b: spend.Budget{Name: "a", Rules: []spend.Rule{ok}}, says: "ISO 4217"},
		{name: "no rules", b: budget(), says: "no rules"},
		{name: "an empty rule", b: budget(spend.Rule{}), says: "empty"},
		{
			name: "a plan without a name", says: "the name of a plan",
			b: spend.Budget{Name: "a", Currency: "EUR", Rules: []spend.Rule{ok}, Plans: map[string][]spend.Rule{"": {ok}}},
		},
		{
			name: "a plan without rules", says: `plans.p: budget "a" has no rules`,
			b: spend.Budget{Name: "a", Currency: "EUR", Rules: []spend.Rule{ok}, Plans: map[string][]spend.Rule{"p": nil}},
		},
		{
			name: "a rule that counts something else in a plan", says: `rule "ok" counts spends`,
			b: spend.Budget{
				Name: "a", Currency: "EUR", Rules: []spend.Rule{ok},
				Plans: map[string][]spend.Rule{"p": {spend.Count("ok", 1, time.Hour)}},
			},
		},
		{name: "two rules with one name", b: budget(ok, ok), says: `two rules of budget "cards" are called "ok"`},
		{name: "a rule without a name", b: budget(spend.Lifetime("", eur(1))), says: "1 to 64 bytes"},
		{name: "an amount of zero", b: budget(spend.Lifetime("r", eur(0))), says: "must be positive"},
		{name: "another currency", b: budget(spend.Lifetime("r", spend.Money{Minor: 1, Currency: "USD"})), says: "currency"},
		{name: "a count of zero", b: budget(spend.Count("r", 0, time.Hour)), says: "number of spends"},
		{name: "an own limit above any bucket", b: budget(spend.Leaky("r", eur(1), time.Hour).AtMost(eur(1<<53 + 1))), says: "90071992547409.92 EUR"},
		{
			name: "a bucket that is too large in a finer unit", says: "90071992.54740992 EUR",
			b: spend.Budget{Name: "a", Currency: "EUR:8", Rules: []spend.Rule{spend.Leaky("r", eur(90_071_993_00), time.Hour)}},
		},
		{
			name: "an amount above all in a finer unit", says: "the largest amount is 9223372036.854775807 EUR",
			b: spend.Budget{Name: "a", Currency: "EUR:9", Rules: []spend.Rule{spend.Lifetime("r", eur(10_000_000_000_00))}},
		},
		{
			name: "a rule finer than its budget", says: `rule "r"`,
			b: budget(spend.Lifetime("r", spend.Money{Minor: 1_001, Currency: "EUR:3"})),
		},
		{
			name: "an own limit finer than its budget", says: "0.011 EUR is finer",
			b: budget(spend.Lifetime("r", eur(1)).AtMost(spend.Money{Minor: 11, Currency: "EUR:3"})),
		},
		{name: "a scale of 10", b: spend.Budget{Name: "a", Currency: "EUR:10", Rules: []spend.Rule{ok}}, says: "ISO 4217"},
		{
			name: "two scales", says: "budgets count in EUR and in EUR:4",
			b: budget(ok), o: &spend.Options{Budgets: []spend.Budget{{Name: "fine", Currency: "EUR:4", Rules: []spend.Rule{ok}}}},
		},
		{name: "no zone", b: budget(spend.Calendar("r", eur(1), spend.Day, nil)), says: "Location"},
		{name: "no period", b: budget(spend.Calendar("r", eur(1), 0, time.UTC)), says: "Day, Week"},
		{name: "a count that counts credits", b: budget(spend.Count("r", 1, time.Hour).CountsCredits()), says: "CountsCredits has no meaning"},
		{name: "a window that counts credits", b: budget(spend.Rolling("r", eur(1), time.Hour).CountsCredits()), says: "use Calendar, Lifetime or Leaky"},
		{name: "a ceiling that counts credits", b: budget(spend.PerTransaction("r", eur(1)).CountsCredits()), says: "CountsCredits has no meaning"},
		{name: "a ceiling with thresholds", b: budget(spend.PerTransaction("r", eur(1)).Thresholds(50)), says: "Thresholds have no meaning"},
		{name: "a share of nothing", b: budget(ok.Thresholds(0, 50)), says: "a threshold is 0 percent"},
		{name: "a share of more than the limit", b: budget(ok.Thresholds(50, 101)), says: "a threshold is 101 percent"},
		{name: "many thresholds", b: budget(ok.Thresholds(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)), says: "11 thresholds"},
		{name: "a window that counts declines", b: budget(ok.CountsDeclines()), says: "only for Count and CountPer"},
		{name: "a window that counts voids", b: budget(ok.CountsVoids()), says: "only for Count and CountPer"},
		{name: "a bound without a currency", b: budget(ok.MatchingAtMost(spend.Money{Minor: 1})), says: "matches amounts in"},
		{name: "a limit for each value of no tag", b: budget(ok.Per("")), says: "Per needs a tag"},
		{name: "a ceiling for each value", b: budget(spend.PerTransaction("r", eur(1)).Per("merchant")), says: "judges each spend alone"},
		{name: "a bucket for each value", b: budget(spend.Leaky("r", eur(1), time.Hour).Per("merchant")), says: "it has one bucket"},
		{name: "a filter without values", b: budget(ok.Matching("category")), says: "at least one value"},
		{
			name: "two budgets with one name", says: "two budgets",
			b: budget(ok), o: &spend.Options{Budgets: []spend.Budget{budget(ok)}},
		},
		{name: "negative times", b: budget(ok), o: &spend.Options{HoldTTL: -1}, says: "positive"},
	} {
		_, err := spend.New(t.Context(), l, c.b, c.o)
		if !errors.Is(err, spend.ErrBudget) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want ErrBudget that says %q", c.name, err, c.says)
		}
	}
}

// TestLeakyInPlan: an account whose plan has a Leaky rule takes no amount that a bucket cannot
// count.
func TestLeakyInPlan(t *testing.T) {
	large := spend.Money{Minor: store.MaxAmount + 1, Currency: "EUR"}
	for name, plan := range map[string]spend.Rule{"leaky": spend.Leaky("r", spend.Money{Minor: 1, Currency: "EUR"}, time.Hour), "lifetime": spend.Lifetime("r", large)} {
		b, err := spend.New(t.Context(), memledger.New(nil), spend.Budget{
			Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("r", large)}, Plans: map[string][]spend.Rule{"p": {plan}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		approve(t)(b.SetPlan(t.Context(), spend.PlanRequest{ID: "p", Account: "a", Plan: "p"}))
		_, err = b.Charge(t.Context(), spend.Request{ID: "1", Account: "a", Amount: large})
		if refused := errors.Is(err, spend.ErrAmount); refused != (name == "leaky") {
			t.Errorf("a plan with a %s rule: %v", name, err)
		}
	}
}
