package spend_test

import (
	"testing"

	"github.com/brimgo/brim/spend"
)

// TestForgetRule: a retired rule keeps the entries that it needs, until it is forgotten.
func TestForgetRule(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("old", cents(1000)),
		"rolling":  spend.Rolling("old", cents(1000), 10*365*day),
		"leaky":    spend.Leaky("old", cents(1000), day),
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			window := spend.Rolling("window", cents(100), day)
			old, b := budgets(t, l, window, rule), budgets(t, l, window)
			charge(t, old, "1", 60)
			l.now = l.now.Add(80 * day)
			charge(t, b, "2", 60)
			l.now = l.now.Add(80 * day)
			prune(t, b)
			if got := left(t, b, "a"); name != "leaky" && got != "[spend spend]" {
				t.Errorf("before, the entries are %s", got)
			}
			for _, want := range []int64{1, 0} {
				if n, err := b.ForgetRule(t.Context(), "old", "replaced by window"); err != nil || n != want {
					t.Errorf("forgotten in %d accounts, %v; want %d", n, err, want)
				}
			}
			entry := lines(t, b, "a")[0]
			if entry.Kind != "forget" || entry.Tags["rule"] != "old" || entry.Tags["reason"] != "replaced by window" {
				t.Errorf("the entry is %+v", entry)
			}
			prune(t, b)
			if got := left(t, b, "a"); got != "[forget spend]" { // KeepIDs needs the second one
				t.Errorf("afterwards, the entries are %s", got)
			}
			charge(t, old, "3", 60)
			sound(t, old)
			sound(t, b)
		})
	}
}
