package spend_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
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

// TestHoldAtItsExpiry: a hold is open until its expiry, and has expired at that time, also if the clock
// is set back after a decision.
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
		if open, err := b.Holds(t.Context(), "a"); err != nil || len(open) != c.open {
			t.Errorf("after %v: %+v, %v; want %d open holds", c.after, open, err, c.open)
		}
	}
	charge(t, b, "1", 1)
	l.now = start
	if got, err := b.Get(t.Context(), "h"); err != nil || got.Spend.State != "expired" || got.Spend.Held != cents(0) {
		t.Errorf("the account is ahead of the clock: %+v, %v; want it expired", got.Spend, err)
	}
}
