package spend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestPeriodBoundaries: a period has the spends from its first microsecond on, whichever budget
// decided them, and none of the microsecond before.
func TestPeriodBoundaries(t *testing.T) {
	daily := spend.Calendar("day", cents(1000), spend.Day, time.UTC)
	single := spend.PerTransaction("single", cents(1000))
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name         string
		before, from bool // the budgets of the spends before midnight, and at midnight, have the rule
	}{
		{"all by budgets with the rule", true, true},
		{"all by budgets without the rule", false, false},
		{"by budgets that lack the rule from midnight on", true, false},
		{"by budgets that have the rule from midnight on", false, true},
	} {
		l := newTestLedger(t)
		process := func(has bool) *spend.Budgets {
			if has {
				return budgets(t, l, daily, single)
			}
			return budgets(t, l, single)
		}
		charge(t, process(c.before), "noon", 1)
		l.now = midnight.Add(-time.Microsecond)
		charge(t, process(c.before), "last", 10)
		l.now = midnight
		charge(t, process(c.from), "first", 100)
		l.now = midnight.Add(11 * time.Hour)
		newer := process(true)
		for _, when := range []string{"at first", "after a decision"} {
			if got := used(t, newer); got != 100 {
				t.Errorf("%s, %s: %d cents are used on the second day, want 100", c.name, when, got)
			}
			record(t, newer, "else of "+when, 1)
			refund(t, newer, "else of "+when, 1)
		}
	}
}

// TestVerifyOneRule: where no other rule shows it, Verify finds the damage of a rule that needs
// all entries.
func TestVerifyOneRule(t *testing.T) {
	ever, leaky := spend.Lifetime("ever", cents(100)), spend.Leaky("leaky", cents(128), 1<<17*time.Second)
	none := func([]ledger.Entry) []ledger.Entry { return nil }
	for _, c := range []struct {
		name    string
		rule    spend.Rule
		amounts []int64 // of charges
		damage  func([]ledger.Entry) []ledger.Entry
		want    error
	}{
		{"no entries and no figures", ever, nil, nil, nil},
		{"entries as they were", ever, []int64{1, 101, 2}, nil, nil},
		{"another amount of the only entry", ever, []int64{1}, oneMore("0"), store.ErrCorrupt},
		{"another amount of the first entry", ever, []int64{1, 2}, oneMore("0"), store.ErrCorrupt},
		{"another amount in a bucket", leaky, []int64{1}, oneMore("0"), store.ErrCorrupt},
		{"no entries", ever, []int64{1}, none, store.ErrCorrupt},
		{
			"no decline between entries", ever,
			[]int64{1, 101, 2},
			func(e []ledger.Entry) []ledger.Entry { return append(e[:1], e[2:]...) }, store.ErrCorrupt,
		},
		{
			"no decline at the end", ever,
			[]int64{1, 101},
			func(e []ledger.Entry) []ledger.Entry { return e[:1] }, store.ErrCorrupt,
		},
		{"no entries of a bucket", leaky, []int64{1}, none, store.ErrCorrupt},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, c.rule)
		for i, n := range c.amounts {
			if _, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(n)}); err != nil {
				t.Fatal(err)
			}
		}
		l.damage(c.damage)
		if err := b.Verify(t.Context(), "a"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
}

// TestLeakWithoutLimit: where an account's own limit of a Leaky rule is zero, the bucket leaks as
// before.
func TestLeakWithoutLimit(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Leaky("leaky", cents(100), 100*time.Second))
	charge(t, b, "s", 50)
	setLimit(t, b, "l", spend.RuleLimit{Rule: "leaky", Amount: cents(0)})
	for _, want := range []int64{50, 40, 30} {
		if got := used(t, b); got != want {
			t.Errorf("%d cents are used, want %d", got, want)
		}
		l.now = l.now.Add(10 * time.Second)
	}
}

// TestLifetimeKeepsSums: Prune removes the entries that a Lifetime rule has counted, and keeps
// those that it has yet to count. The rule goes on from its sums, and Verify from those of the
// removed entries.
func TestLifetimeKeepsSums(t *testing.T) {
	ever := spend.Lifetime("ever", cents(100)).CountsCredits()
	for name, c := range map[string]struct {
		rule   spend.Rule
		pruned []spend.Rule
		then   []spend.Rule // by which a charge is decided before Prune
		left   int
	}{
		"the rule is known":           {ever, []spend.Rule{ever}, nil, 2},
		"for each value":              {ever.Per("merchant"), []spend.Rule{ever.Per("merchant")}, nil, 2},
		"a new rule has not counted":  {ever, []spend.Rule{ever, spend.Lifetime("new", cents(1))}, nil, 4},
		"a new rule has counted them": {ever, []spend.Rule{ever, spend.Lifetime("new", cents(100))}, []spend.Rule{ever, spend.Lifetime("new", cents(100))}, 3},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, c.rule)
		charge(t, b, "s", 60)
		credit(t, b, "c", 20)
		l.now = l.now.Add(50 * day)
		hold(t, b, "h", 7, day)
		capture(t, b, spend.CaptureRequest{HoldID: "h", Amount: cents(7), Final: true})
		l.now = l.now.Add(50 * day)
		want := int64(47)
		if c.then != nil {
			charge(t, budgets(t, l, c.then...), "between", 1)
			want++
		}
		prune(t, budgets(t, l, c.pruned...))
		if left := l.entries(t); len(left) != c.left {
			t.Errorf("%s: %d entries are left, want %d", name, len(left), c.left)
		}
		for range 2 {
			if got := used(t, b); got != want {
				t.Errorf("%s: %d cents are used, want %d", name, got, want)
			}
			if err := b.Verify(t.Context(), "a"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			approve(t)(b.Refund(t.Context(), spend.RefundRequest{ID: fmt.Sprint("r", want), SpendID: "h", Amount: cents(1)}))
			want--
		}
		l.damage(oneMore("capture of h"))
		if err := b.Verify(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: with another amount, %v; want ErrCorrupt", name, err)
		}
	}
}

// TestLifetimeIsKept: an account keeps the sums of a Lifetime rule of another plan, although it was
// pruned under its own.
func TestLifetimeIsKept(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(100), day)
	b := revised(t, l, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{window}, Plans: map[string][]spend.Rule{"p": {spend.Lifetime("ever", cents(1000)), window}},
	}, nil)
	plan := func(id, name string) {
		approve(t)(b.SetPlan(t.Context(), spend.PlanRequest{ID: id, Account: "a", Plan: name}))
	}
	plan("to", "p")
	charge(t, b, "1", 60)
	plan("fro", "")
	l.now = l.now.Add(250 * day)
	charge(t, b, "2", 60)
	prune(t, b)
	if left := l.entries(t); len(left) != 1 {
		t.Errorf("%d entries are left, want 1", len(left))
	}
	plan("back", "p")
	if got := used(t, b); got != 120 {
		t.Errorf("%d cents are used, want 120", got)
	}
	sound(t, b)
}

// TestOneRuleInTwoScales: budgets that share a rule convert its amounts each for itself.
func TestOneRuleInTwoScales(t *testing.T) {
	rule := spend.Lifetime("ever", cents(100)).MatchingAtLeast(cents(5))
	plain := budgets(t, newTestLedger(t), rule)
	if _, err := spend.New(t.Context(), newTestLedger(t), spend.Budget{Name: "fine", Currency: "EUR:4", Rules: []spend.Rule{rule}}, nil); err != nil {
		t.Fatal(err)
	}
	charge(t, plain, "s", 10)
	if got := used(t, plain); got != 10 {
		t.Errorf("%d cents are used, want 10", got)
	}
}
