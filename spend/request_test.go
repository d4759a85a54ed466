package spend_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestUnknownBudget: a process without the budget of an account cannot decide about its spend.
func TestUnknownBudget(t *testing.T) {
	l := newTestLedger(t)
	card := spend.Budget{Name: "card", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(100))}}
	team := card
	team.Name = "team"
	both, err := spend.New(t.Context(), l, card, &spend.Options{Budgets: []spend.Budget{team}})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := spend.New(t.Context(), l, card, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := spend.Request{ID: "s", Account: "a", Amount: cents(5), Also: []spend.Account{{Budget: "team", Name: "t"}}}
	approve(t)(both.Charge(t.Context(), r))
	// A program that does not know the budget reads its rules when a spend was charged to it.
	approve(t)(alone.Refund(t.Context(), spend.RefundRequest{ID: "r", SpendID: "s", Amount: cents(5)}))
	r.ID, r.Also[0].Budget = "n", "none"
	if _, err := alone.Charge(t.Context(), r); !errors.Is(err, spend.ErrRequest) || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("a charge to a budget that the ledger lacks: %v; want ErrRequest that names it", err)
	}
}

// Amounts near the limits of an int64 are refused and never wrap around.
func TestHugeAmounts(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l,
		spend.Lifetime("ever", cents(10)).Matching("kind", "small"), spend.PerTransaction("single", cents(math.MaxInt64)),
	)
	hold(t, b, "huge", math.MaxInt64, day)
	more := spend.IncreaseRequest{ID: "more", HoldID: "huge", Amount: cents(1)}
	if _, err := b.Increase(t.Context(), more); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("an increase of the largest amount: %v; want ErrAmount", err)
	}
	capture(t, b, spend.CaptureRequest{HoldID: "huge", Amount: cents(math.MaxInt64), Force: true})
	late := spend.CaptureRequest{ID: "late", HoldID: "huge", Amount: cents(1), Force: true}
	if _, err := b.Capture(t.Context(), late); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("a forced capture beyond the largest total: %v; want ErrAmount", err)
	}
	record := spend.Request{
		ID: "record", Account: "b", Amount: cents(math.MaxInt64), Tags: map[string]string{"kind": "small"},
	}
	if d, err := b.Record(t.Context(), record); err != nil || d.Remaining[0].Remaining != cents(10-math.MaxInt64) {
		t.Errorf("the largest record: %+v, %v", d, err)
	}
	small := spend.Request{ID: "small", Account: "b", Amount: cents(1), Tags: record.Tags}
	if d, err := b.Charge(t.Context(), small); err != nil || d.Approved || d.RetryAfter != store.Never {
		t.Errorf("a charge after the largest record: %+v, %v; want a decline for ever", d, err)
	}
}

// Recorded and held money can exceed a lowered limit by more than an int64 holds.
func TestHugeExcess(t *testing.T) {
	l := newTestLedger(t)
	with := func(limit int64) *spend.Budgets { return budgets(t, l, spend.Lifetime("ever", cents(limit))) }
	hold(t, with(100), "hold", 100, day)
	more := spend.IncreaseRequest{ID: "more", HoldID: "hold", Amount: cents(math.MaxInt64)}
	if d, err := with(100).Increase(t.Context(), more); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("an increase beyond the largest total: %+v, %v; want ErrAmount, although the rule declines", d, err)
	}
	record(t, with(100), "record", math.MaxInt64)
	d, err := with(1).AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(1)})
	if err != nil || d.Approved || d.RetryAfter != store.Never || d.Remaining[0].Remaining != cents(math.MinInt64) {
		t.Errorf("one cent after the limit was lowered: %+v, %v; want a decline for ever", d, err)
	}
	record(t, budgets(t, l, spend.PerTransaction("single", cents(1))), "more", 1)
	if list, err := budgets(t, l, spend.Lifetime("new", cents(1))).Remaining(t.Context(), "a"); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("a new rule whose sum is out of range: %+v, %v; want ErrAmount", list, err)
	}
}

// TestMessagesFitTheirCall: only a capture can be forced, only a final one may be of zero, and a
// refund names its spend.
func TestMessagesFitTheirCall(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("r", cents(100)))
	hold(t, b, "h", 1, time.Second)
	l.now = l.now.Add(time.Second)
	capture := func(n int64) (spend.Decision, error) {
		return b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(n)})
	}
	increase := func(n int64) (spend.Decision, error) {
		return b.Increase(t.Context(), spend.IncreaseRequest{ID: "c", HoldID: "h", Amount: cents(n)})
	}
	void := func(int64) (spend.Decision, error) {
		return b.Void(t.Context(), spend.VoidRequest{ID: "c", HoldID: "h"})
	}
	refund := func(n int64) (spend.Decision, error) {
		return b.Refund(t.Context(), spend.RefundRequest{ID: "c", Amount: cents(n)})
	}
	for _, c := range []struct {
		call func(int64) (spend.Decision, error)
		n    int64
		says string
	}{
		{capture, 1, "spend: hold has expired; to capture money that has been taken nevertheless, set Force"},
		{increase, 1, "spend: hold has expired"},
		{void, 0, "spend: hold has expired"},
		{capture, 0, "spend: invalid amount: 0.00 EUR; it must be positive, or zero with Final"},
		{increase, 0, "spend: invalid amount: 0.00 EUR; it must be positive"},
		{refund, 1, "spend: invalid request: SpendID must be 1 to 128 bytes of UTF-8 without control characters"},
	} {
		if _, err := c.call(c.n); err == nil || err.Error() != c.says {
			t.Errorf("got %v; want %q", err, c.says)
		}
	}
}
