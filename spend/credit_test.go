package spend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestMissedRefund: a rule counts a refund also if a process without the rule has decided it. If a
// credit has paid for these units, the refund makes no room.
func TestMissedRefund(t *testing.T) {
	for _, c := range []struct {
		name    string
		refunds map[string]int64
		want    int64
	}{
		{"no refund", nil, 40},
		{"of the greater spend", map[string]int64{"first": 60}, 0},
		{"of a part", map[string]int64{"second": 10}, 30},
		{"of both", map[string]int64{"first": 60, "second": 10}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLedger(t)
			older := budgets(t, l, spend.Lifetime("ever", cents(1000)))
			newer := budgets(t, l, spend.Calendar("year", cents(100), spend.Year, time.UTC).CountsCredits())
			charge(t, newer, "first", 60)
			charge(t, newer, "second", 40)
			credit(t, newer, "credit", 60)
			if got := used(t, newer); got != 40 {
				t.Errorf("%d cents are used after the credit, want 40", got)
			}
			l.now = l.now.Add(25 * time.Hour)
			for _, id := range [...]string{"first", "second"} {
				if n := c.refunds[id]; n > 0 {
					refund(t, older, id, n)
				}
			}
			if got := used(t, newer); got != c.want {
				t.Errorf("%d cents are used, want %d", got, c.want)
			}
			// The same again, stored by a decision.
			charge(t, newer, "third", 1)
			if got := used(t, newer); got != c.want+1 {
				t.Errorf("%d cents are used after a charge, want %d", got, c.want+1)
			}
			sound(t, newer)
		})
	}
}

// TestOneCentPaid: a credit of the smallest unit counts, and ends with the refund of that unit.
func TestOneCentPaid(t *testing.T) {
	b := budgets(t, newTestLedger(t), spend.Lifetime("ever", cents(100)).CountsCredits())
	charge(t, b, "s", 1)
	credit(t, b, "1", 1)
	refund(t, b, "s", 1)
	if got := used(t, b); got != 0 {
		t.Errorf("%d cents are used after the refund of a paid cent, want 0", got)
	}
	if d := asked(t, b, 101); d.Approved {
		t.Error("a cent more than the limit is approved")
	}
}

// TestCreditInAnotherZone: the day of another zone that begins earlier lets the rule count its
// spends anew. Nothing tells for which of them a credit has paid: it makes no room.
func TestCreditInAnotherZone(t *testing.T) {
	for _, merchant := range []string{"", "merchant"} {
		l := newTestLedger(t)
		in := func(hours int) *spend.Budgets {
			rule := spend.Calendar("day", cents(100), spend.Day, time.FixedZone("zone", hours*3600)).CountsCredits()
			if merchant != "" {
				rule = rule.Per(merchant)
			}
			return budgets(t, l, rule)
		}
		for _, c := range []struct {
			zone int
			does func(b *spend.Budgets)
			used int64
		}{
			{0, func(b *spend.Budgets) { charge(t, b, "first", 60); credit(t, b, "c", 50) }, 10},
			{0, func(b *spend.Budgets) { l.now = l.now.Add(2 * time.Hour); charge(t, b, "second", 30) }, 40},
			{1, func(b *spend.Budgets) { charge(t, b, "third", 1) }, 91},
			{-l.now.Hour() - 1, func(b *spend.Budgets) { charge(t, b, "fourth", 1) }, 92},
			{0, func(b *spend.Budgets) { credit(t, b, "d", 20) }, 72},
		} {
			b := in(c.zone)
			if c.does(b); used(t, b) != c.used {
				t.Errorf("Per(%q), zone %d: %d cents are used, want %d", merchant, c.zone, used(t, b), c.used)
			}
			sound(t, b)
		}
	}
}

// TestValuesAreReadOnce: Remaining reads the entries of a window once for all values, and each
// value grows when its oldest entry leaves.
func TestValuesAreReadOnce(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(100), day).Per("merchant"), spend.Rolling("all", cents(100), day))
	start := l.now
	merchant := func(i int) map[string]string { return map[string]string{"merchant": fmt.Sprint(i % 3)} }
	for i := range 6 {
		l.now = start.Add(time.Duration(i) * time.Hour)
		r := spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(1), Tags: merchant(i)}
		if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
			t.Fatal(d, err)
		}
	}
	// The hold expires after the first spend of the value 0 has left, and before the second one
	// leaves.
	h := spend.Request{ID: "h", Account: "a", Amount: cents(1), Tags: merchant(0), TTL: start.Add(day + 2*time.Hour).Sub(l.now)}
	if d, err := b.Authorize(t.Context(), h); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	reads := l.failing(0, nil)
	list, err := b.Remaining(t.Context(), "a")
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v; want three values, and the rule for all", list, err)
	}
	want := map[string]time.Time{
		"0": start.Add(day), "1": start.Add(day + time.Hour), "2": start.Add(day + 2*time.Hour),
	}
	for _, u := range list {
		at := want[u.Value]
		if u.Rule == "all" {
			at = start.Add(day)
		}
		if !u.GrowsAt.Equal(at) {
			t.Errorf("rule %s, value %q: more remains at %v, want %v", u.Rule, u.Value, u.GrowsAt, at)
		}
	}
	if *reads != 3 {
		t.Errorf("%d reads; want 3: of the account, and of the entries for each rule", *reads)
	}
}
