package spend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// pages is a Snapshot that notes the limits of the entries that are read.
type pages struct {
	ledger.Snapshot
	limits *[]int
}

func (s pages) Entries(account string, after, upto int64, limit int) ([]ledger.Entry, int64, error) {
	*s.limits = append(*s.limits, limit)
	return s.Snapshot.Entries(account, after, upto, limit)
}

func (s pages) Holds(account string, upto int64, limit int) ([]ledger.Request, int64, error) {
	*s.limits = append(*s.limits, limit)
	return s.Snapshot.Holds(account, upto, limit)
}

// asked returns the answer to a charge of n cents that is only asked about.
func asked(t *testing.T, b *spend.Budgets, n int64) spend.Decision {
	t.Helper()
	d, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(n)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// full returns the budgets of a window of two days with 600 cents. 600 spends of a cent, a second
// apart, have filled it.
func full(t *testing.T, l *testLedger) *spend.Budgets {
	t.Helper()
	b := budgets(t, l, spend.Rolling("window", cents(600), 2*day))
	for i := range 600 {
		charge(t, b, fmt.Sprint(i), 1)
		l.now = l.now.Add(time.Second)
	}
	return b
}

// TestManyEntries asks for room that many entries, or few, must make.
func TestManyEntries(t *testing.T) {
	l := newTestLedger(t)
	b := full(t, l)
	for _, c := range []struct {
		need, leaves int64 // cents
		atLeast      bool
	}{
		{1, 1, false},
		{32, 32, false},
		{33, 32, true},
		{600, 32, true},
	} {
		d := asked(t, b, c.need)
		want := 2*day - 600*time.Second + time.Duration(c.leaves-1)*time.Second
		if x := d.Declines[0]; x.RetryAfter != want || x.AtLeast != c.atLeast || d.RetryAfter != want {
			t.Errorf("%d cents: %v, at least: %v; want %v, %v", c.need, x.RetryAfter, x.AtLeast, want, c.atLeast)
		}
	}
	// A request at that time learns more, and the last of them is approved at the exact time.
	start := l.now
	for n, d := 1, asked(t, b, 600); !d.Approved; n++ {
		if d.RetryAfter <= 0 || n > 20 {
			t.Fatalf("decline %d: RetryAfter is %v", n, d.RetryAfter)
		}
		l.now = l.now.Add(d.RetryAfter)
		d = asked(t, b, 600)
	}
	if got, want := l.now.Sub(start), 2*day-time.Second; got != want {
		t.Errorf("600 cents were approved after %v, want %v", got, want)
	}
}

// TestPagesOfEntries: a decline that little room answers reads few entries, and no read asks for more
// than a page.
func TestPagesOfEntries(t *testing.T) {
	l := newTestLedger(t)
	b := full(t, l)
	var limits []int
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return pages{snap, &limits} }
	if d := asked(t, b, 1); d.Approved || !slices.Equal(limits, []int{32}) {
		t.Errorf("a decline reads pages of %v, want one of 32", limits)
	}
	limits = nil
	if _, err := b.Remaining(t.Context(), "a"); err != nil || len(limits) == 0 || slices.Max(limits) > 1<<14 {
		t.Errorf("Remaining reads pages of %v, %v; want no more than %d at once", limits, err, 1<<14)
	}
}

// TestAskedAhead asks while the clock is ahead, which stores nothing, and charges after the clock was
// set back. In PostgreSQL a charge that is being decided while somebody asks does the same. The
// next decline must count the charge.
func TestAskedAhead(t *testing.T) {
	for _, c := range []struct {
		why  string
		back time.Duration // from the first charge to the second
	}{
		{"an entry among the times that were read", 5 * time.Minute},
		{"an entry of the microsecond of the last one that was read", 0},
		{"an entry of the microsecond after", time.Microsecond},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Rolling("window", cents(10), time.Hour))
		start := l.now
		charge(t, b, "first", 4)
		l.now = start.Add(10 * time.Minute)
		if got := wait(t, b, 7); got != 50*time.Minute {
			t.Errorf("%s: 7 cents fit after %v, want 50m", c.why, got)
		}
		l.now = start.Add(c.back)
		charge(t, b, "second", 4)
		l.now = start.Add(20 * time.Minute)
		if got, want := wait(t, b, 8), 40*time.Minute+c.back; got != want {
			t.Errorf("%s: 8 cents fit after %v, want %v", c.why, got, want)
		}
	}
}

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
		var limits []int
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return pages{snap, &limits} }
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
			limits = nil
			d := asked(t, b, c.need).Declines[0]
			if d.RetryAfter != c.want || d.AtLeast || len(limits) > 1 {
				t.Errorf("%s: %d cents: %v, at least: %v, with pages of %v; want %v, exactly", name, c.need, d.RetryAfter, d.AtLeast, limits, c.want)
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

// TestEntriesThatDoNotMatch: entries that a rule does not count make no room, but a decline goes
// through no more of them than of others.
func TestEntriesThatDoNotMatch(t *testing.T) {
	l := newTestLedger(t)
	rule := spend.Rolling("window", cents(100), day).Matching("category", "travel")
	b := budgets(t, l, rule)
	travel := map[string]string{"category": "travel"}
	approved := func(d spend.Decision, err error) {
		t.Helper()
		if err != nil || !d.Approved {
			t.Fatal(d, err)
		}
	}
	start := l.now
	approved(b.Charge(t.Context(), spend.Request{ID: "first", Account: "a", Amount: cents(10), Tags: travel}))
	for i := range 300 {
		l.now = l.now.Add(time.Second)
		charge(t, b, fmt.Sprint(i), 1)
	}
	l.now = l.now.Add(time.Second)
	approved(b.Charge(t.Context(), spend.Request{ID: "last", Account: "a", Amount: cents(40), Tags: travel}))
	approved(b.Authorize(t.Context(), spend.Request{
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

// TestJustBefore: an entry of the microsecond before leaves the window as any other.
func TestJustBefore(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(100), day))
	charge(t, b, "1", 60)
	l.now = l.now.Add(time.Microsecond)
	for need, want := range map[int64]time.Duration{41: day - time.Microsecond, 100: day - time.Microsecond} {
		if d := asked(t, b, need); d.RetryAfter != want {
			t.Errorf("%d cents fit in %v, want %v", need, d.RetryAfter, want)
		}
	}
	charge(t, b, "2", 40)
	for need, want := range map[int64]time.Duration{60: day - time.Microsecond, 61: day} {
		if d := asked(t, b, need); d.RetryAfter != want {
			t.Errorf("after a charge at this time %d cents fit in %v, want %v", need, d.RetryAfter, want)
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
		if _, err := b.Record(t.Context(), spend.Request{ID: "1", Account: "a", Amount: cents(c.used)}); err != nil {
			t.Fatal(err)
		}
		_, err := b.SetLimits(t.Context(), spend.LimitsRequest{ID: "2", Account: "a", Limits: []spend.RuleLimit{
			{Rule: "window", Amount: cents(c.own), Until: l.now.Add(c.until)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if d := asked(t, b, c.need); d.Approved || d.RetryAfter != c.want {
			t.Errorf("%s: RetryAfter is %v, want %v", c.name, d.RetryAfter, c.want)
		}
	}
}

// TestVerifyBeforeTheFirstDecision: a rule that was added has not counted yet, and is no damage.
func TestVerifyBeforeTheFirstDecision(t *testing.T) {
	l := newTestLedger(t)
	old := spend.Rolling("window", cents(100), day)
	charge(t, budgets(t, l, old), "1", 60)
	b := budgets(t, l, old, spend.Lifetime("ever", cents(100)), spend.Leaky("leaky", cents(100), day))
	if err := b.Verify(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestVerifyAfterAnotherPruned: a process that does not know a Lifetime rule has pruned entries
// that the rule counted long ago. The other entries cannot prove the rule, and are no damage.
func TestVerifyAfterAnotherPruned(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(100), day)
	knows, prunes := budgets(t, l, window, spend.Lifetime("ever", cents(1000))), budgets(t, l, window)
	charge(t, knows, "0", 1)
	l.now = l.now.Add(2 * day)
	charge(t, knows, "1", 60)
	l.now = l.now.Add(200 * day)
	charge(t, prunes, "2", 60)
	if _, err := prunes.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := l.Ledger.History(t.Context(), "cards/a", ledger.Position{}, 9); err != nil || len(left) != 2 {
		t.Fatalf("%d entries are left, %v; want 2", len(left), err)
	}
	if err := knows.Verify(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestHoldAtTheEnd: a hold expires at the moment when an entry leaves and makes the room.
func TestHoldAtTheEnd(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(307), day))
	charge(t, b, "entry", 50)
	for i := range 256 {
		hold(t, b, fmt.Sprint(i), 1, time.Hour)
	}
	hold(t, b, "last", 1, day)
	if x := asked(t, b, 306).Declines[0]; x.RetryAfter != day || x.AtLeast {
		t.Errorf("RetryAfter is %v, at least: %v; want a day exactly", x.RetryAfter, x.AtLeast)
	}
}
