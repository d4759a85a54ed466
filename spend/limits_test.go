package spend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestLimitsThatDemand: of two who have read the same limit, one changes it.
func TestLimitsThatDemand(t *testing.T) {
	l := newTestLedger(t)
	until := l.now.Add(day)
	b := budgets(t, l, spend.Rolling("window", cents(100), day).AtMost(cents(300)), spend.Count("often", 5, day).AtMost(spend.Money{Minor: 9}))
	must := func(n int64) *spend.Money { return new(cents(n)) }
	for _, c := range []struct {
		id    string
		limit spend.RuleLimit
		want  int64 // in force afterwards
		err   error
	}{
		{"ann", spend.RuleLimit{Rule: "window", Amount: cents(200), If: must(100)}, 200, nil},
		{"bob", spend.RuleLimit{Rule: "window", Amount: cents(150), If: must(100)}, 200, spend.ErrRequest},
		{"ann", spend.RuleLimit{Rule: "window", Amount: cents(200), If: must(100)}, 200, nil},
		{"ann", spend.RuleLimit{Rule: "window", Amount: cents(200), If: must(200)}, 200, spend.ErrIDReused},
		{"ann", spend.RuleLimit{Rule: "window", Amount: cents(200)}, 200, spend.ErrIDReused},
		{"bob", spend.RuleLimit{Rule: "window", Amount: cents(150), If: must(200)}, 150, nil}, // its ID was free
		{"raise", spend.RuleLimit{Rule: "window", Amount: cents(250), Until: until, If: must(150)}, 250, nil},
		{"longer", spend.RuleLimit{Rule: "window", Amount: cents(250), Until: until.Add(day), If: must(150)}, 250, spend.ErrRequest},
		{"shorter", spend.RuleLimit{Rule: "window", Amount: cents(10), Until: until, Add: true, If: must(250)}, 260, nil},
		{"below the raise", spend.RuleLimit{Rule: "window", Amount: cents(50), If: must(150)}, 260, nil},
		{"finer", spend.RuleLimit{Rule: "window", Amount: cents(60), If: &spend.Money{Minor: 500, Currency: "EUR:3"}}, 260, nil},
		{"another currency", spend.RuleLimit{Rule: "window", Amount: cents(60), If: &spend.Money{Minor: 60, Currency: "USD"}}, 260, spend.ErrCurrency},
		{"a number", spend.RuleLimit{Rule: "window", Amount: cents(60), If: &spend.Money{Minor: 60}}, 260, spend.ErrCurrency},
		{"count", spend.RuleLimit{Rule: "often", Amount: spend.Money{Minor: 4}, If: &spend.Money{Minor: 5}}, 4, nil},
		{"default", spend.RuleLimit{Rule: "window", Default: true, If: must(50)}, 260, spend.ErrRequest},
		{"no limit", spend.RuleLimit{Rule: "window", Default: true, If: must(60)}, 100, nil},
	} {
		_, err := b.SetLimits(t.Context(), spend.LimitsRequest{ID: c.id, Account: "a", Limits: []spend.RuleLimit{c.limit}})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.id, err, c.err)
		}
		for _, u := range remaining(t, b, "a") {
			if u.Rule == c.limit.Rule && u.Limit.Minor != c.want {
				t.Errorf("%s: rule %s has the limit %v, want %d", c.id, u.Rule, u.Limit, c.want)
			}
		}
	}
	if e := l.entries(t)[0]; e.Tags["window"] != "default" {
		t.Errorf("the entry tells %q; want the limit alone", e.Tags)
	}
}

// TestLimitsThatAdd: two top-ups both count, each once, and the entry tells the sum.
func TestLimitsThatAdd(t *testing.T) {
	l := newTestLedger(t)
	until := l.now.Add(day)
	rules := []spend.Rule{
		spend.Rolling("window", cents(100), day).AtMost(cents(300)), spend.Count("often", 5, day).AtMost(spend.Money{Minor: 9}),
		spend.Leaky("smooth", cents(100), day).AtMost(cents(200)),
	}
	b := budgets(t, l, rules...)
	for _, c := range []struct {
		id    string
		limit spend.RuleLimit
		want  int64 // in force afterwards
		tag   string
		err   error
	}{
		{"first", spend.RuleLimit{Rule: "window", Amount: cents(50), Add: true}, 150, "1.50 EUR", nil},
		{"second", spend.RuleLimit{Rule: "window", Amount: cents(50), Add: true}, 200, "2.00 EUR", nil},
		{"second", spend.RuleLimit{Rule: "window", Amount: cents(50), Add: true}, 200, "2.00 EUR", nil},
		{"second", spend.RuleLimit{Rule: "window", Amount: cents(50)}, 200, "", spend.ErrIDReused},
		{"beyond", spend.RuleLimit{Rule: "window", Amount: cents(101), Add: true}, 200, "", spend.ErrBudget},
		{"below", spend.RuleLimit{Rule: "window", Amount: cents(-201), Add: true}, 200, "", spend.ErrAmount},
		{"no sum", spend.RuleLimit{Rule: "window", Amount: cents(-1)}, 200, "", spend.ErrAmount},
		{"raise", spend.RuleLimit{Rule: "window", Amount: cents(90), Add: true, Until: until}, 290, "2.90 EUR until " + until.Format(time.RFC3339Nano), nil},
		{"longer", spend.RuleLimit{Rule: "window", Amount: cents(-20), Add: true, Until: until}, 270, "2.70 EUR until " + until.Format(time.RFC3339Nano), nil},
		{"below the raise", spend.RuleLimit{Rule: "window", Amount: cents(-150), Add: true}, 270, "0.50 EUR", nil},
		{"count", spend.RuleLimit{Rule: "often", Amount: spend.Money{Minor: 4}, Add: true}, 9, "9", nil},
		{"leaky", spend.RuleLimit{Rule: "smooth", Amount: cents(7), Add: true}, 107, "1.07 EUR", nil},
		{"no rule", spend.RuleLimit{Rule: "other", Amount: cents(7), Add: true}, 0, "", spend.ErrBudget},
		{"another currency", spend.RuleLimit{Rule: "smooth", Amount: spend.Money{Minor: 7, Currency: "USD"}, Add: true}, 107, "", spend.ErrCurrency},
		{"default", spend.RuleLimit{Rule: "smooth", Default: true, Add: true}, 107, "", spend.ErrRequest},
	} {
		_, err := b.SetLimits(t.Context(), spend.LimitsRequest{ID: c.id, Account: "a", Limits: []spend.RuleLimit{c.limit}})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.id, err, c.err)
		}
		list, err := b.Remaining(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			if u.Rule == c.limit.Rule && u.Limit.Minor != c.want {
				t.Errorf("%s: rule %s has the limit %v, want %d", c.id, u.Rule, u.Limit, c.want)
			}
		}
		if entries := l.entries(t); c.tag != "" {
			if got := entries[0].Tags[c.limit.Rule]; got != c.tag {
				t.Errorf("%s: the entry tells %q, want %q", c.id, got, c.tag)
			}
		}
	}
	l.now = until
	if list, err := b.Remaining(t.Context(), "a"); err != nil || list[0].Limit != cents(50) {
		t.Errorf("%+v, %v; want a limit of 0.50 after the end of the raise", list, err)
	}
}

// TestLimitsThatHaveEnded: a limit whose end has passed changes nothing, neither a lower one that
// is in force nor the limit without an end.
func TestLimitsThatHaveEnded(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(500), day))
	set := func(id string, n int64, until time.Time) {
		t.Helper()
		approve(t)(b.SetLimits(t.Context(), spend.LimitsRequest{ID: id, Account: "a", Limits: []spend.RuleLimit{{Rule: "window", Amount: cents(n), Until: until}}}))
	}
	set("lower", 100, l.now.Add(day))
	for _, until := range []time.Time{l.now.Add(-time.Hour), l.now} {
		set(until.String(), 400, until)
		if u := remaining(t, b, "a"); u[0].Limit != cents(100) {
			t.Errorf("after a limit until %v, the limit is %v; want 1.00", until, u[0].Limit)
		}
	}
	limits, err := b.Limits(t.Context(), "a")
	if err != nil || len(limits) != 1 {
		t.Errorf("%+v, %v; want the limit that is in force", limits, err)
	}
}
