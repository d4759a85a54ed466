package spend_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestAmounts: a decision tells the money that its request has moved.
func TestAmounts(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	ctx := t.Context()
	for _, c := range []struct {
		name string
		call func() (spend.Decision, error)
		want spend.Money
	}{
		{"hold", func() (spend.Decision, error) {
			return b.Authorize(ctx, spend.Request{ID: "h", Account: "a", Amount: cents(50)})
		}, cents(50)},
		{"increase", func() (spend.Decision, error) {
			return b.Increase(ctx, spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(20)})
		}, cents(20)},
		{"increase, declined", func() (spend.Decision, error) {
			return b.Increase(ctx, spend.IncreaseRequest{ID: "j", HoldID: "h", Amount: cents(31)})
		}, spend.Money{}},
		{"decrease", func() (spend.Decision, error) {
			return b.Decrease(ctx, spend.DecreaseRequest{ID: "d", HoldID: "h", Amount: cents(10)})
		}, cents(10)},
		{"capture", func() (spend.Decision, error) {
			return b.Capture(ctx, spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(5)})
		}, cents(5)},
		{"refund", func() (spend.Decision, error) {
			return b.Refund(ctx, spend.RefundRequest{ID: "r", SpendID: "h", Amount: cents(3)})
		}, cents(3)},
		{"void", func() (spend.Decision, error) {
			return b.Void(ctx, spend.VoidRequest{ID: "v", HoldID: "h"})
		}, spend.Money{}},
	} {
		if d, err := c.call(); err != nil || d.Amount != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, d.Amount, err, c.want)
		}
	}
	// The entry of a spend of one cent tells its amount; one of an unfreezing has none.
	charge(t, b, "one", 1)
	if e := lines(t, b, "a")[0]; e.SpendAmount != cents(1) {
		t.Errorf("the entry of a spend of one cent has the amount %v", e.SpendAmount)
	}
	if _, err := b.Unfreeze(ctx, spend.FreezeRequest{ID: "u", Account: "a"}); err != nil {
		t.Fatal(err)
	}
	if e := lines(t, b, "a")[0]; e.SpendAmount != (spend.Money{}) {
		t.Errorf("the entry of an unfreezing has the amount %v of a spend", e.SpendAmount)
	}
}

// TestDecreaseOfParts releases the newest part first, to the last cent, and passes over parts of
// which nothing is held.
func TestDecreaseOfParts(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	hold(t, b, "h", 10, time.Hour)
	if d, err := b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(5)}); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	for i, n := range []int64{1, 6, 1, 3} {
		if _, err := b.Decrease(t.Context(), spend.DecreaseRequest{ID: fmt.Sprint(i), HoldID: "h", Amount: cents(n)}); err != nil {
			t.Fatal(err)
		}
	}
	figures(t, b, "a", 0, 4)
	var got []string
	for _, e := range l.entries(t)[:5] {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Amount, " of ", e.Part))
	}
	slices.Reverse(got)
	want := []string{"decrease 1 of 2", "decrease 4 of 2", "decrease 2 of 1", "decrease 1 of 1", "decrease 3 of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("the entries are %q, want %q", got, want)
	}
}

// TestForcedCaptureCountsOnce: a capture of more than was held is no further spend.
func TestForcedCaptureCountsOnce(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Count("often", 5, day))
	hold(t, b, "h", 10, time.Hour)
	c := spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(11), Force: true}
	if d, err := b.Capture(t.Context(), c); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	figures(t, b, "a", 1, 0)
}

// TestLateAtTheExpiry: a hold that is captured late at the microsecond of its expiry is released once.
func TestLateAtTheExpiry(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	hold(t, b, "h", 10, time.Hour)
	l.now = l.now.Add(time.Hour)
	c := spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(7), Force: true}
	if d, err := b.Capture(t.Context(), c); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	figures(t, b, "a", 7, 0)
}

// TestLateInOneAccount: a hold that has expired in one account and is captured late is no open hold
// of the other account.
func TestLateInOneAccount(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	start := l.now
	r := spend.Request{
		ID: "h", Account: "a", Also: []spend.Account{{Budget: "cards", Name: "b"}}, Amount: cents(10), TTL: time.Minute,
	}
	if d, err := b.Authorize(t.Context(), r); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	l.now = start.Add(time.Hour)
	charge(t, b, "1", 1)
	l.now = start
	c := spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(7), Force: true}
	if d, err := b.Capture(t.Context(), c); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	if open, err := b.Holds(t.Context(), "b"); err != nil || len(open) != 0 {
		t.Errorf("%+v, %v; want no open hold", open, err)
	}
}

// TestExtendToTheSameExpiry: an extension that changes nothing does not lose the hold.
func TestExtendToTheSameExpiry(t *testing.T) {
	l := newTestLedger(t)
	w := &watcher{Ledger: l}
	b := budgets(t, w, spend.Lifetime("ever", cents(100)))
	hold(t, b, "h", 10, time.Hour)
	if _, err := b.Extend(t.Context(), spend.ExtendRequest{ID: "e", HoldID: "h", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	// A ledger that first creates holds and then deletes others would lose a hold that is in both lists.
	if c := w.changes; len(c.Opened) != 0 || len(c.Closed) != 0 {
		t.Errorf("the extension creates %v and deletes %v, want neither", c.Opened, c.Closed)
	}
	figures(t, b, "a", 0, 10)
	l.now = l.now.Add(time.Hour)
	figures(t, b, "a", 0, 0)
}

// TestCreditOfAccounts: a credit reaches every account, to the last cent.
func TestCreditOfAccounts(t *testing.T) {
	l := newTestLedger(t)
	w := &watcher{Ledger: l}
	b := budgets(t, w, spend.Lifetime("ever", cents(100)).CountsCredits())
	r := spend.Request{ID: "s", Account: "a", Amount: cents(5), Also: []spend.Account{{Budget: "cards", Name: "b"}}}
	if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	for i := range int64(2) {
		r.ID, r.Amount = fmt.Sprint(i), cents(1)
		if d, err := b.Credit(t.Context(), r); err != nil || !d.Approved {
			t.Fatal(d, err)
		}
		figures(t, b, "a", 4-i, 0)
		figures(t, b, "b", 4-i, 0)
	}
	// A ledger keeps the digest of a request, so it never changes.
	if got := fmt.Sprintf("%x", w.changes.Requests[0].Content); got != "a4853f0491b6af34a88f6a6105589964" {
		t.Errorf("the digest of a credit is %s; a stored one can no longer be compared", got)
	}
}

// TestUpToFindsTheLargest: UpTo finds the largest amount among rules that apply to small amounts.
func TestUpToFindsTheLargest(t *testing.T) {
	limit := func(name string, n int64) spend.Rule { return spend.PerTransaction(name, cents(n)) }
	for _, c := range []struct {
		name   string
		rules  []spend.Rule
		least  int64
		amount int64
		want   int64 // 0 for a decline
	}{
		{"the last amount before a bound that does not fit", []spend.Rule{
			limit("all", 10), limit("small", 100).MatchingAtMost(cents(10)),
		}, 1, 20, 10},
		{"a bound above the amount", []spend.Rule{limit("small", 5).MatchingAtMost(cents(50))}, 1, 20, 5},
		{"a bound below the least amount", []spend.Rule{
			limit("small", 1).MatchingAtMost(cents(5)), limit("all", 8),
		}, 10, 20, 0},
		{"bounds that do not ascend", []spend.Rule{
			limit("middle", 12).MatchingAtMost(cents(15)), limit("small", 2).MatchingAtMost(cents(5)), limit("all", 18),
		}, 1, 20, 18},
		{"bounds that ascend", []spend.Rule{
			limit("small", 2).MatchingAtMost(cents(5)), limit("middle", 3).MatchingAtMost(cents(15)), limit("all", 14),
		}, 1, 20, 2},
	} {
		b := budgets(t, newTestLedger(t), c.rules...)
		d, err := b.UpTo(t.Context(), spend.UpToRequest{
			Request: spend.Request{ID: "u", Account: "a", Amount: cents(c.amount)}, Least: cents(c.least),
		})
		if err != nil || d.Amount.Minor != c.want || d.Approved != (c.want > 0) {
			t.Errorf("%s: %v, %v, approved: %v; want %d cents", c.name, d.Amount, err, d.Approved, c.want)
		}
	}
}

// TestDatesOfRecords: a record is dated within 2^53 microseconds of 1970.
func TestDatesOfRecords(t *testing.T) {
	for _, c := range []struct {
		dated time.Time
		ok    bool
	}{
		{time.UnixMicro(-1<<53 - 1), false},
		{time.UnixMicro(-1 << 53), true},
		{time.UnixMicro(-1), true},
		{time.UnixMicro(0), true},
		{time.UnixMicro(1 << 53), true},
		{time.UnixMicro(1<<53 + 1), false},
	} {
		l := newTestLedger(t)
		l.now = time.UnixMicro(1<<53 + 1)
		b := budgets(t, l, spend.Lifetime("ever", cents(100)))
		_, err := b.Record(t.Context(), spend.Request{ID: "r", Account: "a", Amount: cents(1), Dated: c.dated.UTC()})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, spend.ErrRequest) {
			t.Errorf("a record of %v: %v; want that it passes is %v", c.dated.UTC(), err, c.ok)
		}
	}
}

// TestSetLimits: the decision shows the new limit, and its ID belongs to these limits.
func TestSetLimits(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	r := spend.LimitsRequest{ID: "l", Account: "a", Limits: []spend.RuleLimit{{Rule: "ever", Amount: cents(50)}}}
	d, err := b.SetLimits(t.Context(), r)
	if err != nil || d.Remaining[0].Limit != cents(50) || d.Remaining[0].Remaining != cents(50) {
		t.Errorf("%+v, %v; want the limit that was set", d.Remaining, err)
	}
	d.Replayed = true
	if again, err := b.SetLimits(t.Context(), r); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("the same again: %+v, %v; want %+v", again, err, d)
	}
	r.Limits[0].Amount = cents(60)
	if _, err := b.SetLimits(t.Context(), r); !errors.Is(err, spend.ErrIDReused) {
		t.Errorf("another limit with the same ID: %v; want ErrIDReused", err)
	}
	f := spend.FreezeRequest{ID: "f", Account: "a", Reason: strings.Repeat("r", 256)}
	if _, err := b.Freeze(t.Context(), f); err != nil {
		t.Errorf("a reason of 256 bytes: %v", err)
	}
}
