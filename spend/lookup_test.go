package spend_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestGet tells the request, its answer and its spend.
func TestGet(t *testing.T) {
	b := budgets(t, newTestLedger(t), spend.Lifetime("ever", cents(1000)))
	first := approve(t)(b.Charge(t.Context(), spend.Request{ID: "s", Account: "a", Amount: cents(1)}))
	first.Replayed = true
	got, err := b.Get(t.Context(), "s")
	if err != nil || got.ID != "s" || got.Spend.State != "charged" {
		t.Errorf("%+v, %v; want the ID", got, err)
	}
	if d := differ.Fields(got.Decision, first); d != "" {
		t.Error(d)
	}
}

// TestGetOfCanceledDecline tells the declines of a request that was canceled afterwards, and those
// of accounts that its cancellation does not lock. The cancellation itself has none.
func TestGetOfCanceledDecline(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Calendar("day", cents(1000), spend.Day, time.UTC)) // it tells when it grows
	team := spend.Account{Budget: "cards", Name: "team"}
	charge(t, b, "1", 999)
	if _, err := b.Freeze(t.Context(), spend.FreezeRequest{ID: "f", Account: team.Name, Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	r := spend.Request{ID: "r", Account: "a", Amount: cents(2), Also: []spend.Account{team}}
	first, err := b.Charge(t.Context(), r)
	if err != nil || len(first.Declines) != 2 || first.Declines[1].Frozen != "lost" {
		t.Fatalf("%+v, %v; want declines of the rule and of the freeze", first, err)
	}
	l.now = l.now.Add(8 * day)
	canceled, err := b.Cancel(t.Context(), "r", "a")
	if err != nil || !canceled.Approved || canceled.Declines != nil {
		t.Fatalf("%+v, %v", canceled, err)
	}
	want := canceled
	want.Approved, want.Amount, want.Replayed, want.Declines, want.RetryAfter = false, spend.Money{}, true, first.Declines, store.Never
	again, err := b.Charge(t.Context(), r)
	got, err2 := b.Get(t.Context(), "r")
	if d := differ.Fields(got.Decision, want); err != nil || err2 != nil || d != "" || got.Spend.State != "canceled" {
		t.Errorf("Get: %+v, %v, %v:\n%s", got.Spend, err, err2, d)
	}
	if d := differ.Fields(again, want); d != "" {
		t.Errorf("a retry:\n%s", d)
	}
	twice, err := b.Cancel(t.Context(), "r", "a")
	if canceled.Replayed = true; err != nil || differ.Fields(twice, canceled) != "" {
		t.Errorf("a second Cancel: %+v, %v; want %+v", twice, err, canceled)
	}
}

// TestHoldAtItsExpiry: a hold is open until its expiry, and has expired at that time, also if the
// clock is set back after a decision.
func TestHoldAtItsExpiry(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(1000)))
	hold(t, b, "h", 10, time.Hour)
	hold(t, b, "later", 1, day)
	start := l.now
	for _, c := range []struct {
		after time.Duration
		state string
		held  int64
		open  int
	}{
		{time.Hour - time.Microsecond, "held", 10, 2},
		{time.Hour, "expired", 0, 1},
	} {
		l.now = start.Add(c.after)
		got, err := b.Get(t.Context(), "h")
		if err != nil || got.Spend.State != c.state || got.Spend.Held != cents(c.held) {
			t.Errorf("after %v: %+v, %v; want %s and %d cents held", c.after, got.Spend, err, c.state, c.held)
		}
		if open, err := collect(b.Holds(t.Context(), "a")); err != nil || len(open) != c.open {
			t.Errorf("after %v: %+v, %v; want %d open holds", c.after, open, err, c.open)
		}
	}
	charge(t, b, "1", 1)
	l.now = start
	if got, err := b.Get(t.Context(), "h"); err != nil || got.Spend.State != "expired" || got.Spend.Held != cents(0) {
		t.Errorf("the account is ahead of the clock: %+v, %v; want it expired", got.Spend, err)
	}
}
