package spend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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
			old, b := budgets(t, l, ever), budgets(t, l, rule, ever)
			start := l.now
			charge(t, old, "removed", 60)
			l.now = start.Add(year)
			prune(t, old)
			if got := left(t, old, "a"); got != "[]" {
				t.Fatalf("the entries left are %s; want none", got)
			}
			want := int64(50)
			if charge(t, old, "ahead", 30); early {
				charge(t, b, "begins", 1)
				want += 31
			}
			l.now = start.Add(day)
			mend(t, old, "mend")
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

// TestMendByAnother: a process mends an account, and lacks a rule of another one.
func TestMendByAnother(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"rolling": spend.Rolling("theirs", cents(100), day), "count": spend.Count("theirs", 2, day),
		"lifetime": spend.Lifetime("theirs", cents(100)), "leaky": spend.Leaky("theirs", cents(100), day),
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			theirs, b := budgets(t, l, rule), budgets(t, l, spend.Rolling("ours", cents(1000), day))
			start := l.now
			charge(t, theirs, "before", 60)
			l.now = start.Add(50 * day)
			charge(t, theirs, "ahead", 40)
			l.now = start.Add(time.Hour)
			mend(t, b, "mend")
			charge(t, b, "ours", 10)
			if d := asked(t, theirs, 1); d.Approved {
				t.Errorf("approved; the rule is full: %+v", d)
			}
			record(t, theirs, "r", 1)
			sound(t, theirs)
			sound(t, b)
			l.now = start.Add(3 * day)
			if d := asked(t, theirs, 1); d.Approved == (name == "lifetime") {
				t.Errorf("three days later: %+v", d)
			}
		})
	}
}

// TestMendOfHoldsByAnother: a process without a rule lets holds of the rule end under a clock that
// is ahead, and mends the account. The rule finds them ended when it returns.
func TestMendOfHoldsByAnother(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("theirs", cents(100)), "each": spend.Lifetime("theirs", cents(100)).Per("shop"),
		"leaky": spend.Leaky("theirs", cents(100), 36_000*day),
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLedger(t)
			theirs, b := budgets(t, l, rule), budgets(t, l, spend.Rolling("ours", cents(1000), day))
			start := l.now
			for id, expiry := range map[string]spend.Expiry{"released": spend.ReleaseOnExpiry, "spent": spend.SpendOnExpiry} {
				approve(t)(theirs.Authorize(t.Context(), spend.Request{
					ID: id, Account: "a", Amount: cents(30), TTL: day, OnExpiry: expiry,
				}))
			}
			l.now = start.Add(50 * day)
			charge(t, b, "ahead", 10)
			l.now = start.Add(time.Hour)
			mend(t, b, "mend")
			sound(t, theirs)
			charge(t, theirs, "theirs", 20)
			if got := used(t, theirs); got != 60 {
				t.Errorf("%d used; want 30 of the hold that spends, 10 and 20", got)
			}
			sound(t, theirs)
		})
	}
}

// TestMendOfALeakyRule: a process without a Leaky rule decides first when the clock has caught up
// with the mended account. Verify does not take the time of the wrong clock for that of the rule's
// last spend.
func TestMendOfALeakyRule(t *testing.T) {
	l := newTestLedger(t)
	b, theirs := budgets(t, l, spend.PerTransaction("ours", cents(1000))), budgets(t, l, spend.Leaky("theirs", cents(100), 50*day))
	start := l.now
	l.now = start.Add(10 * day)
	charge(t, b, "ahead", 10)
	l.now = start.Add(day)
	mend(t, b, "mend")
	for i, process := range []*spend.Budgets{theirs, theirs, b, theirs} {
		l.now = start.Add([]time.Duration{day, 6 * day, 11 * day, 13 * day}[i])
		charge(t, process, fmt.Sprint(i), 10)
		sound(t, theirs)
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

// TestMendEndsHoldsByAnother: a process mends an account, and ends a hold of another one's rule,
// which the wrong clock began and ended.
func TestMendEndsHoldsByAnother(t *testing.T) {
	for _, rule := range []spend.Rule{
		spend.Lifetime("theirs", cents(100)).Per("shop"), spend.Leaky("theirs", cents(100), day),
	} {
		l := newTestLedger(t)
		b, theirs := budgets(t, l, spend.PerTransaction("ours", cents(1000))), budgets(t, l, rule)
		start := l.now
		l.now = start.Add(year)
		hold(t, theirs, "h", 5, time.Hour)
		l.now = l.now.Add(day)
		charge(t, b, "ahead", 30)
		l.now = start.Add(time.Hour)
		mend(t, b, "mend")
		sound(t, theirs)
	}
}

// TestMendOften compares accounts that are mended again and again with a plain model: entries count
// at the clock of their decision, and from the mend on if that was ahead.
func TestMendOften(t *testing.T) {
	const keep = 4 * day
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newTestLedger(t)
		rules := []spend.Rule{spend.Rolling("rule", cents(100), 2*day)}
		b, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, &spend.Options{HoldTTL: day, KeepIDs: keep})
		if err != nil {
			t.Fatal(err)
		}
		others := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("other", cents(100), 3*day).Per("shop")}}
		other, err := spend.New(t.Context(), l, others, &spend.Options{KeepIDs: keep, HoldTTL: day})
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
			id := fmt.Sprint(seed, "-", step)
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
				_, err := other.Record(t.Context(), spend.Request{ID: id + "o", Account: "a", Amount: cents(1)})
				tell("record", err)
				list = append(list, &one{id: id + "o", dated: l.now, used: 1})
				decided = l.now
			}
			sound(t, b)
			sound(t, other)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}
