package spend_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
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
		{name: "name with a slash", b: spend.Budget{Name: "a/b", Currency: "EUR", Rules: []spend.Rule{ok}}, says: "without /"},
		{name: "no currency", b: spend.Budget{Name: "a", Rules: []spend.Rule{ok}}, says: "ISO 4217"},
		{name: "no rules", b: budget(), says: "no rules"},
		{name: "an empty rule", b: budget(spend.Rule{}), says: "empty"},
		{name: "two rules of one name", b: budget(ok, ok), says: `two rules are called "ok"`},
		{name: "no rule's name", b: budget(spend.Lifetime("", eur(1))), says: "1 to 64 bytes"},
		{name: "nothing allowed", b: budget(spend.Lifetime("r", eur(0))), says: "must be positive"},
		{name: "another currency", b: budget(spend.Lifetime("r", spend.Money{Minor: 1, Currency: "USD"})), says: "currency"},
		{name: "a window of nothing", b: budget(spend.Rolling("r", eur(1), 0)), says: "microsecond"},
		{name: "a window of centuries", b: budget(spend.Rolling("r", eur(1), math.MaxInt64)), says: "100 years"},
		{name: "no spends", b: budget(spend.Count("r", 0, time.Hour)), says: "number of spends"},
		{name: "a bucket that is too large", b: budget(spend.Leaky("r", eur(1<<53+1), time.Hour)), says: "2^53"},
		{name: "a bucket that leaks too slowly", b: budget(spend.Leaky("r", spend.Money{Minor: 1, Currency: "EUR"}, 100*365*24*time.Hour)), says: ""},
		{name: "no zone", b: budget(spend.Calendar("r", eur(1), spend.Day, nil)), says: "Location"},
		{name: "no period", b: budget(spend.Calendar("r", eur(1), 0, time.UTC)), says: "Day, Week"},
		{name: "no day", b: budget(spend.Calendar("r", eur(1), spend.Week, time.UTC).WeekStarting(9)), says: "day of the week"},
		{name: "a filter of nothing", b: budget(ok.Matching("category")), says: "at least one value"},
		{name: "two budgets of one name", b: budget(ok), o: &spend.Options{Budgets: []spend.Budget{budget(ok)}}, says: "two budgets"},
		{name: "IDs forgotten before holds", b: budget(ok), o: &spend.Options{HoldTTL: time.Hour, KeepIDs: time.Minute}, says: "KeepIDs at least HoldTTL"},
		{name: "negative times", b: budget(ok), o: &spend.Options{HoldTTL: -1}, says: "positive"},
	} {
		_, err := spend.New(l, c.b, c.o)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, spend.ErrBudget) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want ErrBudget that says %q", c.name, err, c.says)
		}
	}
}
