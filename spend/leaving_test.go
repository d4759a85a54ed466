package spend_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestManyHolds: declines tell exactly when holds make the room, whatever their number, and read
// none of them.
func TestManyHolds(t *testing.T) {
	for name, rule := range map[string]spend.Rule{
		"lifetime": spend.Lifetime("rule", cents(300)),
		"calendar": spend.Calendar("rule", cents(300), spend.Year, time.UTC),
		"rolling":  spend.Rolling("rule", cents(300), 30*day),
		"leaky":    spend.Leaky("rule", cents(300), 30*day),
	} {
		l := newTestLedger(t)
		b := budgets(t, l, rule)
		for i := range 300 {
			hold(t, b, fmt.Sprint(i), 1, day+time.Duration(i%30)*time.Second)
		}
		reads := l.failing(0, nil)
		for _, c := range []struct {
			need int64
			want time.Duration
		}{
			{1, day},
			{10, day},
			{11, day + time.Second},
			{300, day + 29*time.Second},
			{301, store.Never},
		} {
			*reads = 0
			d := asked(t, b, c.need).Declines[0]
			if d.RetryAfter != c.want || d.AtLeast || *reads > 2 { // of the account, and of a page of entries
				t.Errorf("%s: %d cents: %v, at least: %v, after %d reads; want %v, exactly, after 2",
					name, c.need, d.RetryAfter, d.AtLeast, *reads, c.want)
			}
		}
	}
}

// TestRetryAfterIsNeverLate compares the RetryAfter of random histories, with declines among the
// spends, with the sums of the spends. It is exact if the amount fits before 32 entries have left.
// Otherwise it is never later than the exact time, and a request at that time learns more.
func TestRetryAfterIsNeverLate(t *testing.T) {
	first, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	exactly, early := 0, 0
	for n := first; n < first+20; n++ {
		t.Logf("BRIM_SEED=%d repeats the history from here", n)
		r := rand.New(rand.NewPCG(n, 15))
		const limit = 12_000
		l := newTestLedger(t)
		b := budgets(t, l, spend.Rolling("window", cents(limit), 2*day))
		type entry struct {
			at     time.Time
			amount int64 // 0 for a decline
		}
		var entries []entry
		used := int64(0)
		for i := range 600 {
			amount := 1 + r.Int64N(30)
			if r.IntN(4) == 0 {
				amount = limit
			}
			d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(amount)})
			if err != nil {
				t.Fatal(err)
			}
			if !d.Approved {
				amount = 0
			}
			entries, used = append(entries, entry{l.now, amount}), used+amount
			l.now = l.now.Add(time.Duration(1+r.Int64N(60_000_000)) * time.Microsecond)
		}
		for range 20 {
			need := 1 + limit - used + r.Int64N(used)
			if n%2 == 0 { // few entries make the room
				need = 1 + limit - used + r.Int64N(used/20)
			}
			left, exact, through := used, time.Time{}, 0
			for i, e := range entries {
				if left -= e.amount; left+need <= limit {
					exact, through = e.at.Add(2*day), i+1
					break
				}
			}
			d := asked(t, b, need).Declines[0]
			got := l.now.Add(d.RetryAfter)
			switch ahead := exact.Sub(got); {
			case !d.AtLeast:
				exactly++
				if ahead != 0 {
					t.Errorf("%d cents fit at %v, and RetryAfter leads to %v", need, exact, got)
				}
			case through <= 32:
				t.Errorf("%d cents fit when %d entries have left, and RetryAfter is not exact", need, through)
			case ahead < 0 || d.RetryAfter <= 0:
				t.Errorf("%d cents fit at %v, and RetryAfter leads to %v, which is later, or not later than now", need, exact, got)
			default:
				early++
				now := l.now
				l.now = got
				if next := asked(t, b, need); !next.Approved && next.RetryAfter <= 0 {
					t.Errorf("%d cents at %v: approved %v, RetryAfter %v", need, got, next.Approved, next.RetryAfter)
				}
				l.now = now
			}
		}
	}
	if exactly < 50 || early < 50 {
		t.Errorf("%d times are exact and %d are not; the histories should show both often", exactly, early)
	}
}

// TestManyOfOneDate: a decline reads 32 entries of a date, whatever their number. The decision
// whose window they leave reads each of them once, in pages of a bounded length.
func TestManyOfOneDate(t *testing.T) {
	const n, longest = 50_000, 1 << 14
	m := &measured{testLedger: newTestLedger(t)}
	b := budgets(t, m, spend.Rolling("window", cents(n), day))
	for i := range n {
		charge(t, b, fmt.Sprint(i), 1)
	}
	for i := range 3 {
		m.now, m.w = m.now.Add(time.Hour), work{}
		d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint("more", i), Account: "a", Amount: cents(1)})
		if left := day - time.Duration(i+1)*time.Hour; err != nil || d.RetryAfter != left || !d.AtLeast || m.w.read > 32 {
			t.Errorf("%+v, %v, after %d entries were read; want a decline for %v at least, and 32", d, err, m.w.read, left)
		}
	}
	m.now, m.w = m.now.Add(day-3*time.Hour), work{}
	charge(t, b, "leaves", n)
	if m.w.read > n+32 || m.w.page > longest {
		t.Errorf("%d entries were read, in pages of up to %d; want %d, in pages of up to %d", m.w.read, m.w.page, n, longest)
	}
	sound(t, b)
}

// TestEntriesThatDoNotMatch: entries that a rule does not count make no room, but a decline goes
// through no more of them than of others.
func TestEntriesThatDoNotMatch(t *testing.T) {
	l := newTestLedger(t)
	rule := spend.Rolling("window", cents(100), day).Matching("category", "travel")
	b := budgets(t, l, rule)
	travel := map[string]string{"category": "travel"}
	start := l.now
	approve(t)(b.Charge(t.Context(), spend.Request{ID: "first", Account: "a", Amount: cents(10), Tags: travel}))
	for i := range 300 {
		l.now = l.now.Add(time.Second)
		charge(t, b, fmt.Sprint(i), 1)
	}
	l.now = l.now.Add(time.Second)
	approve(t)(b.Charge(t.Context(), spend.Request{ID: "last", Account: "a", Amount: cents(40), Tags: travel}))
	approve(t)(b.Authorize(t.Context(), spend.Request{
		ID: "hold", Account: "a", Amount: cents(50), Tags: travel, TTL: start.Add(day + 20*time.Second).Sub(l.now),
	}))
	for _, c := range []struct {
		need    int64
		at      time.Duration // after the first entry
		atLeast bool
	}{
		{10, day, false},
		{11, day + 20*time.Second, false}, // the hold expires among the entries that were read
		{60, day + 20*time.Second, false},
		{61, day + 31*time.Second, true}, // the last of 32 entries
	} {
		d, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(c.need), Tags: travel})
		if err != nil || d.Approved {
			t.Fatal(d, err)
		}
		x := d.Declines[0]
		if got := l.now.Add(x.RetryAfter).Sub(start); got != c.at || x.AtLeast != c.atLeast {
			t.Errorf("%d cents fit %v after the first entry, at least: %v; want %v, %v", c.need, got, x.AtLeast, c.at, c.atLeast)
		}
	}
}

// TestLimitsThatEnd: a RetryAfter counts by the limit that is in force at that time.
func TestLimitsThatEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		own        int64 // until
		until      time.Duration
		used, need int64
		want       time.Duration
	}{
		{"a lower limit ends after the room is there", 10, 2 * time.Hour, 50, 60, 2 * time.Hour},
		{"a lower limit ends before the room is there", 10, time.Minute, 50, 60, time.Hour},
		{"a raise ends when the room would be there", 200, time.Hour, 150, 110, store.Never},
		{"a raise ends just after the room is there", 200, time.Hour + time.Microsecond, 150, 110, time.Hour},
		{"a raise ends before the room would be there", 200, time.Minute, 150, 90, time.Hour},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Rolling("window", cents(100), time.Hour).AtMost(cents(200)))
		record(t, b, "1", c.used)
		setLimit(t, b, "2", spend.RuleLimit{Rule: "window", Amount: cents(c.own), Until: l.now.Add(c.until)})
		if d := asked(t, b, c.need); d.Approved || d.RetryAfter != c.want {
			t.Errorf("%s: RetryAfter is %v, want %v", c.name, d.RetryAfter, c.want)
		}
	}
}

// TestFilledRuleOfManyEntries: a decline fills a rule that has other entries first in its window,
// more than a decision looks at. The rule itself has not declined.
func TestFilledRuleOfManyEntries(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(40), 2*day), spend.Count("attempts", 1, day).CountsDeclines().Matching("kind", "try"))
	for i := range 40 {
		charge(t, b, fmt.Sprint(i), 1)
		l.now = l.now.Add(time.Minute)
	}
	try := spend.Request{ID: "try", Account: "a", Amount: cents(1), Tags: map[string]string{"kind": "try"}}
	for range 2 { // the second answer is the stored one
		d, err := b.Charge(t.Context(), try)
		if err != nil || len(d.Declines) != 1 || d.Declines[0].AtLeast || !d.AtLeast {
			t.Errorf("%+v, %v; want a decline by the window, whose RetryAfter is exact, and an answer that says AtLeast", d, err)
		}
	}
}
