package spend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
)

const year = 365 * day

// TestMend: every kind of rule, with spends under a clock a year ahead and before.
func TestMend(t *testing.T) {
	for name, c := range map[string]struct {
		rule               spend.Rule
		mended, later, end int64 // used after the mend, after 20 more cents, and two days later
	}{
		"rolling":  {spend.Rolling("rule", cents(100), day), 90, 100, 0},
		"calendar": {spend.Calendar("rule", cents(100), spend.Day, time.UTC), 90, 100, 0},
		"lifetime": {spend.Lifetime("rule", cents(100)), 90, 100, 100},
		"count":    {spend.Count("rule", 3, day), 2, 3, 0},
		"leaky":    {spend.Leaky("rule", cents(100), day), 100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			b := budgets(t, l, c.rule)
			start := l.now
			charge(t, b, "before", 60)
			l.now = start.Add(year)
			charge(t, b, "ahead", 30)
			l.now = start.Add(time.Hour)
			mend(t, b, "mend")
			if got := used(t, b); got != c.mended {
				t.Errorf("%d used after the mend; want %d", got, c.mended)
			}
			sound(t, b)
			e := lines(t, b, "a")[0]
			if e.Kind != "mend" || e.Tags["reason"] == "" || !e.At.Equal(start.Add(year)) || !e.Dated.Equal(l.now) {
				t.Errorf("the entry is %+v", e)
			}
			if c.later > 0 {
				charge(t, b, "later", 10)
				sound(t, b)
				if got := used(t, b); got != c.later {
					t.Errorf("%d used after one more charge; want %d", got, c.later)
				}
			}
			if d := asked(t, b, 1); d.Approved || name != "lifetime" && d.RetryAfter > 23*time.Hour {
				t.Errorf("%+v; want a decline for less than a day", d)
			}
			l.now = start.Add(2 * day)
			if got := used(t, b); got != c.end {
				t.Errorf("%d used two days later; want %d", got, c.end)
			}
			if name != "lifetime" {
				charge(t, b, "free", 50)
			}
			sound(t, b)
			l.now = start.Add(2 * year)
			if name != "lifetime" {
				charge(t, b, "last", 1)
			}
			sound(t, b)
		})
	}
}

// TestMendAmongMany: the entries of the future count once, at the date of the mend, also if a page
// ends within that date.
func TestMendAmongMany(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("rule", cents(200), day))
	start := l.now
	for i := range 50 {
		charge(t, b, fmt.Sprint("before", i), 1)
	}
	l.now = start.Add(time.Hour)
	for i := range 40 {
		charge(t, b, fmt.Sprint("ahead", i), 2)
	}
	l.now = start
	mend(t, b, "mend")
	for i := range 50 {
		charge(t, b, fmt.Sprint("after", i), 1)
	}
	figures(t, b, "a", 180, 0)
	if d := asked(t, b, 21); d.RetryAfter != day || !d.AtLeast {
		t.Errorf("%+v; want a decline for a day at least", d)
	}
	if u := remaining(t, b, "a")[0]; !u.GrowsAt.Equal(start.Add(day)) {
		t.Errorf("%+v; want that it grows after a day", u)
	}
	sound(t, b)
	l.now = start.Add(day)
	charge(t, b, "whole", 200)
	sound(t, b)
}

// TestMendRefused: without the entries of a window, Mend would make room.
func TestMendRefused(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("rule", cents(100), 30*day))
	start := l.now
	charge(t, b, "before", 60)
	l.now = start.Add(year)
	charge(t, b, "ahead", 30)
	l.now = start.Add(day)
	prune(t, b) // by the clock nothing is old
	if got := left(t, b, "a"); got != "[spend spend]" {
		t.Errorf("Prune left %s; want both entries", got)
	}
	l.now = start.Add(year)
	prune(t, b)
	l.now = start.Add(day)
	r := spend.FreezeRequest{ID: "m", Account: "a", Reason: "r"}
	if _, err := b.Mend(t.Context(), r); !errors.Is(err, spend.ErrRequest) {
		t.Errorf("%v; want ErrRequest", err)
	}
}

// TestRuleAfterPruneAhead: Prune has removed entries under a clock that was ahead. A rule that is
// new to the mended account, or that began before the mend, counts the spends of the right clock.
func TestRuleAfterPruneAhead(t *testing.T) {
	ever := spend.Lifetime("ever", cents(1000))
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("new", cents(100)), "rolling": spend.Rolling("new", cents(100), 30*day),
		"calendar": spend.Calendar("new", cents(100), spend.Year, time.UTC),
	} {
		for _, early := range []bool{false, true} {
			if early && name != "lifetime" {
				continue // Mend is refused
			}
			l := newTestLedger(t)
			old := budgets(t, l, ever)
			start := l.now
			charge(t, old, "removed", 60)
			l.now = start.Add(year)
			prune(t, old)
			if got := left(t, old, "a"); got != "[]" {
				t.Fatalf("the entries left are %s; want none", got)
			}
			want := int64(50)
			if charge(t, old, "ahead", 30); early {
				charge(t, budgets(t, l, rule, ever), "begins", 1)
				want += 31
			}
			l.now = start.Add(day)
			mend(t, old, "mend")
			b := budgets(t, l, rule, ever)
			for i := range 5 {
				l.now = l.now.Add(time.Hour)
				charge(t, b, fmt.Sprint(i), 10)
				sound(t, b)
			}
			if got := used(t, b); got != want {
				t.Errorf("%s, early %t: %d used; want %d", name, early, got, want)
			}
			r := spend.Request{ID: "r", Account: "a", Amount: cents(1), Dated: l.now}
			if _, err := b.Record(t.Context(), r); err != nil {
				t.Errorf("%s: a record of now: %v", name, err)
			}
		}
	}
}

// TestMendUnderAnotherPlan: an account is mended while it has another plan. The rules of its plan
// go on as if it had been mended under them.
func TestMendUnderAnotherPlan(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("theirs", cents(100)), "leaky": spend.Leaky("theirs", cents(100), day),
		"each": spend.Lifetime("theirs", cents(100)).Per("shop"), "calendar": spend.Calendar("theirs", cents(100), spend.Day, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			b := revised(t, l, spend.Budget{
				Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("ours", cents(1000), day)}, Plans: map[string][]spend.Rule{"p": {rule}},
			}, nil)
			plan := func(id, name string) {
				approve(t)(b.SetPlan(t.Context(), spend.PlanRequest{ID: id, Account: "a", Plan: name}))
				sound(t, b)
			}
			plan("to", "p")
			start := l.now
			charge(t, b, "before", 40)
			approve(t)(b.Authorize(t.Context(), spend.Request{ID: "released", Account: "a", Amount: cents(20), TTL: day}))
			approve(t)(b.Authorize(t.Context(), spend.Request{ID: "spent", Account: "a", Amount: cents(20), TTL: day, OnExpiry: spend.SpendOnExpiry}))
			l.now = start.Add(50 * day)
			plan("fro", "")
			charge(t, b, "ahead", 30)
			hold(t, b, "h", 5, time.Hour)
			l.now = l.now.Add(day)
			charge(t, b, "later", 1)
			l.now = start.Add(time.Hour)
			mend(t, b, "mend")
			charge(t, b, "ours", 9)
			plan("back", "p")
			if d := asked(t, b, 1); d.Approved {
				t.Errorf("approved; the rule is full: %+v", d)
			}
			record(t, b, "r", 1)
			sound(t, b)
			l.now = start.Add(3 * day)
			if d := asked(t, b, 1); d.Approved == (name == "lifetime" || name == "each") {
				t.Errorf("three days later: %+v", d)
			}
		})
	}
}

// TestMendOfADrain: a refund under the wrong clock drains nothing, because all has leaked by then.
// After the mend, the units have not leaked yet.
func TestMendOfADrain(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Leaky("smooth", cents(100), 10*day))
	charge(t, b, "s", 30)
	l.now = l.now.Add(20 * day)
	refund(t, b, "s", 30)
	l.now = l.now.Add(-19 * day)
	mend(t, b, "mend")
	sound(t, b)
	figures(t, b, "a", 20, 0)
}

// TestMendOften compares accounts that are mended again and again with a plain model: entries count
// at the clock of their decision, and from the mend on if that was ahead.
func TestMendOften(t *testing.T) {
	const keep = 4 * day
	for number := range uint64(seed.Attempts(60, 200)) {
		r := rand.New(rand.NewPCG(number, 1))
		l := newTestLedger(t)
		rules := []spend.Rule{spend.Rolling("rule", cents(100), 2*day)}
		b, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, &spend.Options{HoldTTL: day, KeepIDs: keep})
		if err != nil {
			t.Fatal(err)
		}
		type one struct {
			id         string
			dated, end time.Time
			used, held int64
		}
		var list []*one
		base, ahead := l.now, time.Duration(0)
		var decided time.Time // the last time
		alive := func(x *one) bool { return x.held > 0 && x.end.After(l.now) }
		for step := range 100 {
			base = base.Add(time.Duration(r.Int64N(int64(day) / 4)))
			l.now = base.Add(ahead)
			used, held := int64(0), int64(0)
			for _, x := range list {
				if x.dated.After(l.now.Add(-2 * day)) {
					used += x.used
					if alive(x) {
						held += x.held
					}
				}
			}
			id := fmt.Sprint(number, "-", step)
			tell := func(what string, err error) {
				if err != nil {
					t.Fatalf("%s %s: %v", id, what, err)
				}
			}
			switch k := r.IntN(8); {
			case k == 0 && ahead == 0:
				ahead = time.Duration(1+r.Int64N(100)) * day / 4
				continue
			case ahead > 0 && k < 3:
				// Holds that have expired by the account's time stay expired.
				for _, x := range list {
					if !x.end.After(decided) {
						x.held = 0
					}
				}
				l.now, ahead = base, 0
				mend(t, b, id)
				for _, x := range list {
					if x.dated.After(base) {
						x.dated = base
					}
				}
				decided = base
			case k < 5:
				x := &one{id: id, dated: l.now, used: 1 + r.Int64N(40)}
				d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(x.used), Tags: map[string]string{"shop": fmt.Sprint(r.IntN(2))}})
				tell("charge", err)
				if d.Approved != (used+held+x.used <= 100) {
					t.Fatalf("%s: charge of %d: %t with %d used and %d held", id, x.used, d.Approved, used, held)
				}
				if decided = l.now; d.Approved {
					list = append(list, x)
				}
			case k == 5:
				x := &one{id: id, dated: l.now, held: 1 + r.Int64N(40), end: l.now.Add(time.Duration(1+r.Int64N(8)) * day / 4)}
				d, err := b.Authorize(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(x.held), TTL: x.end.Sub(l.now)})
				tell("authorize", err)
				if d.Approved != (used+held+x.held <= 100) {
					t.Fatalf("%s: hold of %d: %t with %d used and %d held", id, x.held, d.Approved, used, held)
				}
				if decided = l.now; d.Approved {
					list = append(list, x)
				}
			case k == 6 && ahead == 0:
				_, err := b.Prune(t.Context())
				tell("prune", err)
			case len(list) > 0:
				x := list[r.IntN(len(list))]
				if _, err := b.Get(t.Context(), x.id); errors.Is(err, spend.ErrUnknownSpend) && x.dated.Before(l.now.Add(-keep)) {
					continue // Prune has removed the ID
				}
				if x.used > 0 {
					_, err := b.Refund(t.Context(), spend.RefundRequest{ID: id, SpendID: x.id, Amount: cents(1)})
					tell("refund", err)
					x.used--
					decided = l.now
				} else if !x.end.IsZero() {
					_, err := b.Capture(t.Context(), spend.CaptureRequest{ID: id, HoldID: x.id, Amount: cents(1)})
					if alive(x) != (err == nil) {
						t.Fatalf("%s: capture: %v, of %+v at %v", id, err, x, l.now)
					}
					if err == nil {
						x.used, x.held = x.used+1, x.held-1
						decided = l.now
					}
				}
			}
			if r.IntN(6) == 0 {
				_, err := b.Record(t.Context(), spend.Request{ID: id + "o", Account: "a", Amount: cents(1)})
				tell("record", err)
				list = append(list, &one{id: id + "o", dated: l.now, used: 1})
				decided = l.now
			}
			sound(t, b)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", number, step)
			}
		}
	}
}
