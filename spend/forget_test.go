package spend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestPruneOfAnotherProcess has a nightly job prune that lacks a rule of the application. The rule
// keeps no phantom spending.
func TestPruneOfAnotherProcess(t *testing.T) {
	l := newTestLedger(t)
	start := l.now
	at := func(days int) { l.now = start.Add(time.Duration(days) * day) }
	app, job := budgets(t, l, spend.Rolling("month", cents(10_000), 30*day)), budgets(t, l, spend.Rolling("day", cents(100), day))
	charge(t, app, "1", 9000)
	at(20)
	charge(t, app, "2", 500)
	at(91)
	if _, err := job.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	at(95)
	list, err := app.Remaining(t.Context(), "a")
	if err != nil || list[0].Used != cents(0) {
		t.Errorf("%+v, %v; want nothing used", list, err)
	}
	if err := app.Verify(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestForgetRule: a retired rule keeps the entries that it needs, until it is forgotten.
func TestForgetRule(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("old", cents(1000)),
		"rolling":  spend.Rolling("old", cents(1000), 10*365*day),
		"leaky":    spend.Leaky("old", cents(1000), day),
	} {
		l := newTestLedger(t)
		window := spend.Rolling("window", cents(100), day)
		old, b := budgets(t, l, window, rule), budgets(t, l, window)
		charge(t, old, "1", 60)
		l.now = l.now.Add(80 * day)
		charge(t, b, "2", 60)
		l.now = l.now.Add(80 * day)
		prune := func() {
			t.Helper()
			if _, err := b.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		prune()
		if got := left(t, b, "a"); name != "leaky" && got != "[spend spend]" {
			t.Errorf("%s: before, the entries are %s", name, got)
		}
		for _, want := range []int64{1, 0} {
			if n, err := b.ForgetRule(t.Context(), "old", "replaced by window"); err != nil || n != want {
				t.Errorf("%s: forgotten in %d accounts, %v; want %d", name, n, err, want)
			}
		}
		entry := lines(t, b, "a")[0]
		if entry.Kind != "forget" || entry.Tags["rule"] != "old" || entry.Tags["reason"] != "replaced by window" {
			t.Errorf("%s: the entry is %+v", name, entry)
		}
		prune()
		if got := left(t, b, "a"); got != "[forget spend]" { // KeepIDs needs the second one
			t.Errorf("%s: afterwards, the entries are %s", name, got)
		}
		charge(t, old, "3", 60)
		for _, budgets := range []*spend.Budgets{old, b} {
			if err := budgets.Verify(t.Context(), "a"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	b := budgets(t, newTestLedger(t), spend.Lifetime("ever", cents(100)))
	for _, c := range []struct {
		rule, reason string
		want         error
	}{{"ever", "r", spend.ErrBudget}, {"", "r", spend.ErrRequest}, {"old", "", spend.ErrRequest}, {"old", "a\nb", spend.ErrRequest}} {
		if _, err := b.ForgetRule(t.Context(), c.rule, c.reason); !errors.Is(err, c.want) {
			t.Errorf("%q because %q: %v, want %v", c.rule, c.reason, err, c.want)
		}
	}
}

// TestPruneOfNothing: Prune writes nothing where nothing has expired and no entry is old.
func TestPruneOfNothing(t *testing.T) {
	m := &measured{testLedger: newTestLedger(t)}
	b := budgets(t, m, spend.Rolling("window", cents(100), day))
	charge(t, b, "1", 60)
	for range 3 {
		m.now = m.now.Add(20 * day)
		m.w.state = 0
		if _, err := b.Prune(t.Context()); err != nil || m.w.state != 0 {
			t.Errorf("Prune has stored the account, %v", err)
		}
	}
}

// TestGetByTheAccountsTime: a hold whose account is ahead of the clock has expired for Get, too.
func TestGetByTheAccountsTime(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	hold(t, b, "h", 10, time.Hour)
	start := l.now
	l.now = start.Add(day)
	charge(t, b, "1", 1)
	l.now = start
	got, err := b.Get(t.Context(), "h")
	if err != nil || got.Spend.State != "expired" || got.Spend.Held != cents(0) {
		t.Errorf("%+v, %v; want it expired", got.Spend, err)
	}
}
