package spend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestForwardJump: the clock jumps an hour ahead while one account decides, and comes back. The
// time of that account stays ahead. No other account follows it, and RetryAfter counts from the
// clock.
func TestForwardJump(t *testing.T) {
	for name, c := range map[string]struct {
		rule spend.Rule
		want time.Duration // for 64 cents, from the clock
	}{
		"rolling": {spend.Rolling("rule", cents(64), 2*time.Hour), 3 * time.Hour},
		"leaky":   {spend.Leaky("rule", cents(64), 64*time.Second), time.Hour + 64*time.Second},
		"count":   {spend.Count("rule", 1, 2*time.Hour), 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			b := budgets(t, l, c.rule)
			start := l.now
			l.now = start.Add(time.Hour)
			charge(t, b, "1", 64)
			l.now = start
			d := asked(t, b, 64)
			if d.RetryAfter != c.want || d.Declines[0].RetryAfter != c.want {
				t.Errorf("RetryAfter is %v, want %v", d.RetryAfter, c.want)
			}
			l.now = start.Add(c.want - time.Microsecond)
			if d := asked(t, b, 64); d.Approved {
				t.Error("approved a microsecond before RetryAfter")
			}
			l.now = start.Add(c.want)
			if d := asked(t, b, 64); !d.Approved {
				t.Errorf("declined after RetryAfter: %+v", d.Declines)
			}
			l.now = start
			both := spend.Request{ID: "2", Account: "b", Also: []spend.Account{{Budget: "cards", Name: "a"}}, Amount: cents(1)}
			if d, err := b.Record(t.Context(), both); err != nil || !d.At.Equal(start.Add(time.Hour)) {
				t.Errorf("%+v, %v; want a record at the time of the account that is ahead", d, err)
			}
			for account, at := range map[string]time.Time{"a": start.Add(time.Hour), "b": start} {
				if e := lines(t, b, account)[0]; !e.At.Equal(at) || !e.Dated.Equal(at) {
					t.Errorf("account %s: the entry is of %v and dated %v, want %v", account, e.At, e.Dated, at)
				}
			}
			refund(t, b, "2", 1)
			for account, at := range map[string]time.Time{"a": start.Add(time.Hour), "b": start} {
				if e := lines(t, b, account)[0]; e.Kind != "refund" || !e.Dated.Equal(at) {
					t.Errorf("account %s: %+v; want a refund dated %v", account, e, at)
				}
			}
			sound(t, b, "b")
		})
	}
}

// TestExpiredInOneAccount: a hold has expired by the time of one of its accounts, and is captured
// late. It ends in the other account, too.
func TestExpiredInOneAccount(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("rule", cents(100), day))
	start := l.now
	r := spend.Request{
		ID: "h", Account: "a", Also: []spend.Account{{Budget: "cards", Name: "b"}}, Amount: cents(10), TTL: time.Minute,
	}
	approve(t)(b.Authorize(t.Context(), r))
	l.now = start.Add(time.Hour)
	charge(t, b, "1", 1)
	l.now = start.Add(time.Second)
	figures(t, b, "a", 1, 0)
	figures(t, b, "b", 0, 10)
	capture(t, b, spend.CaptureRequest{HoldID: "h", Amount: cents(7), Force: true})
	for range 2 {
		figures(t, b, "a", 8, 0)
		figures(t, b, "b", 7, 0)
		sound(t, b, "b")
		if open, err := collect(b.Holds(t.Context(), "b")); err != nil || len(open) != 0 {
			t.Errorf("%+v, %v; want no open hold", open, err)
		}
		l.now = start.Add(2 * time.Hour)
		if d, err := b.Charge(t.Context(), spend.Request{ID: "2", Account: "b", Amount: cents(100)}); err != nil || d.Approved {
			t.Errorf("%+v, %v; want a decline", d, err)
		}
	}
}

// TestZones: the ledger stores the instant at which the account's period began. A zone of another
// name or with other rules neither splits nor joins periods.
func TestZones(t *testing.T) {
	l := newTestLedger(t)
	in := func(zone *time.Location) *spend.Budgets {
		return budgets(t, l, spend.Calendar("day", cents(1000), spend.Day, zone))
	}
	const hour = 3600
	utc, renamed := time.UTC, time.FixedZone("Elsewhere", 0)
	west, east := time.FixedZone("Zone", -5*hour), time.FixedZone("Zone", 5*hour)
	at := func(h int) { l.now = time.Date(2026, 3, 1, h, 0, 0, 0, time.UTC) }
	at(12)
	charge(t, in(utc), "1", 1)
	at(20)
	charge(t, in(renamed), "2", 10) // the 2nd of March in the east
	at(27)
	charge(t, in(utc), "3", 100) // still the 1st of March in the west
	for range 2 {
		figures(t, in(utc), "a", 100, 0)
		figures(t, in(renamed), "a", 100, 0)
		figures(t, in(west), "a", 111, 0)
		figures(t, in(east), "a", 110, 0)
	}
	// Decisions move the stored period back, and forward only when a day begins: nobody gets the
	// limit once more because the zone has changed.
	for i, c := range []struct {
		zone *time.Location
		used int64
	}{{renamed, 100}, {east, 110}, {utc, 110}, {west, 111}, {renamed, 111}, {east, 111}} {
		figures(t, in(c.zone), "a", c.used+int64(i), 0)
		charge(t, in(c.zone), fmt.Sprint("z", i), 1)
		figures(t, in(c.zone), "a", c.used+int64(i)+1, 0)
		sound(t, in(c.zone))
	}
	at(24 + 20) // the 3rd of March in the east; the day that began in UTC has not ended
	figures(t, in(utc), "a", 117, 0)
	figures(t, in(east), "a", 117, 0)
	at(24 + 30) // the 3rd of March in UTC and in the west
	figures(t, in(utc), "a", 0, 0)
	figures(t, in(west), "a", 0, 0)
}

// TestZonesOfPlans: plans that count days in different zones do not give an account the limit once
// more with each change of its plan.
func TestZonesOfPlans(t *testing.T) {
	l := newTestLedger(t)
	in := func(hours int) []spend.Rule {
		return []spend.Rule{spend.Calendar("day", cents(100), spend.Day, time.FixedZone("zone", hours*3600))}
	}
	b, err := spend.New(t.Context(), l, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: in(0), Plans: map[string][]spend.Rule{"one": in(-1), "two": in(-2), "east": in(9)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	approved, midnight := 0, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i, plan := range []string{"", "", "one", "two", "", "east", "two"} {
		l.now = midnight.Add(time.Duration(i-1)*time.Hour + time.Minute) // the day begins in the zone of the plan
		if _, err := b.SetPlan(t.Context(), spend.PlanRequest{ID: fmt.Sprint("p", i), Account: "a", Plan: plan}); err != nil {
			t.Fatal(err)
		}
		d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint("c", i), Account: "a", Amount: cents(100)})
		if err != nil {
			t.Fatal(err)
		}
		if d.Approved {
			approved++
		}
		sound(t, b)
	}
	if approved != 2 {
		t.Errorf("%d times 100 of 100 a day were approved within six hours; want one time on each side of midnight", approved)
	}
}

// TestLeakyChanges: Verify recomputes the bucket of a Leaky rule from the last change of its rate
// on.
func TestLeakyChanges(t *testing.T) {
	l := newTestLedger(t)
	rules := []spend.Rule{
		spend.Leaky("rule", cents(64), 64*time.Second), spend.Leaky("rule", cents(128), 32*time.Second),
		spend.Leaky("rule", cents(64), 640*time.Second),
	}
	for i, rule := range append(rules, rules...) {
		b := budgets(t, l, rule)
		charge(t, b, fmt.Sprint("a", i), 20)
		l.now = l.now.Add(9 * time.Second)
		hold(t, b, fmt.Sprint("b", i), 1, time.Second)
		l.now = l.now.Add(time.Minute)
		for _, other := range rules {
			sound(t, budgets(t, l, other))
		}
	}
	b := budgets(t, l, rules[0])
	charge(t, b, "last", 1)
	l.damage(oneMore("last"))
	if err := b.Verify(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("an entry after the last change has another amount than the bucket: %v; want ErrCorrupt", err)
	}
}

// TestPeriodsBefore1970: a period that ends before 1970 ends when it ends.
func TestPeriodsBefore1970(t *testing.T) {
	l := newTestLedger(t)
	l.now = time.Date(1969, 10, 10, 12, 0, 0, 0, time.UTC)
	b := budgets(t, l, spend.Calendar("day", cents(100), spend.Day, time.UTC))
	charge(t, b, "1", 100)
	if got := wait(t, b, 50); got != 12*time.Hour {
		t.Errorf("50 cents fit after %v, want 12h", got)
	}
	l.now = l.now.Add(12 * time.Hour)
	d, err := b.Charge(t.Context(), spend.Request{ID: "2", Account: "a", Amount: cents(100)})
	if err != nil || !d.Approved {
		t.Errorf("the next day: %+v, %v; want an approval", d, err)
	}
}
