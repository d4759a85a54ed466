package spend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestRefundOfParts gives back the newest part of a spend first, and each part once. A reversal of
// all refunds takes the same parts again, the oldest first.
func TestRefundOfParts(t *testing.T) {
	l := newTestLedger(t)
	_, b := everyRule(t, l)
	hold(t, b, "s", 10, day)
	increase(t, b, "s", 5)
	capture(t, b, spend.CaptureRequest{HoldID: "s", Amount: cents(16), Force: true})
	refund(t, b, "s", 8)
	refund(t, b, "s", 7)
	if _, err := b.Refund(t.Context(), spend.RefundRequest{ID: "r", SpendID: "s", Amount: cents(2)}); !errors.Is(err, spend.ErrExceeds) {
		t.Errorf("a refund of 2 cents where 1 is left: %v; want ErrExceeds", err)
	}
	refund(t, b, "s", 1)
	for _, n := range []int64{12, 4} {
		approve(t)(b.ReverseRefund(t.Context(), spend.ReverseRequest{ID: fmt.Sprint(n), SpendID: "s", Amount: cents(n)}))
	}
	if _, err := b.ReverseRefund(t.Context(), spend.ReverseRequest{ID: "x", SpendID: "s", Amount: cents(1)}); !errors.Is(err, spend.ErrExceeds) {
		t.Errorf("a reversal after that of all refunds: %v; want ErrExceeds", err)
	}
	got := l.parts(t)
	want := []string{
		"authorize 10 of 1", "increase 5 of 2", "capture 10 of 1", "capture 5 of 2", "capture 1 of 5",
		"refund 1 of 5", "refund 5 of 2", "refund 2 of 1", "refund 7 of 1", "refund 1 of 1",
		"reverse 10 of 1", "reverse 2 of 2", "reverse 3 of 2", "reverse 1 of 5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the entries are\n%q\nwant\n%q", got, want)
	}
}

// TestEndsOfHolds: an ended hold names its end, holds nothing, and counts only if it was captured.
func TestEndsOfHolds(t *testing.T) {
	for _, c := range []struct {
		name, says string
		end        func(*spend.Budgets) (spend.Decision, error)
		count      int64
	}{
		{"a void", "the spend is voided", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Void(t.Context(), spend.VoidRequest{ID: "e", HoldID: "s"})
		}, 0},
		{"a final capture of one cent", "the spend is captured", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(1), Final: true})
		}, 1},
		{"a final capture of nothing", "the spend is voided", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(0), Final: true})
		}, 0},
		{"a capture of all", "the spend is captured", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(10)})
		}, 1},
	} {
		l := newTestLedger(t)
		_, b := everyRule(t, l)
		hold(t, b, "s", 10, day)
		for _, u := range approve(t)(c.end(b)).Remaining {
			if u.Held.Minor != 0 || u.Rule == "often" && u.Used.Minor != c.count {
				t.Errorf("%s: %+v; want nothing held, and %d spends", c.name, u, c.count)
			}
		}
		late := spend.CaptureRequest{ID: "l", HoldID: "s", Amount: cents(1)}
		if _, err := b.Capture(t.Context(), late); !errors.Is(err, spend.ErrHoldEnded) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a capture after %s: %v; want an error that says %q", c.name, err, c.says)
		}
		late.Force = true
		if d, err := b.Capture(t.Context(), late); err != nil || d.Remaining[3].Used.Minor != 1 || d.Remaining[3].Held.Minor != 0 {
			t.Errorf("a forced capture after %s: %+v, %v; want one spend, and nothing held", c.name, d.Remaining[3], err)
		}
		late.ID, late.Force = "later", false
		if _, err := b.Capture(t.Context(), late); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a capture after a forced one after %s: %v; want an error that says %q", c.name, err, c.says)
		}
	}
}

// TestCountOfAHold: a hold counts as one spend until it ends without a capture, however many parts
// of it are released.
func TestCountOfAHold(t *testing.T) {
	for _, c := range []struct {
		why            string
		more, captured int64 // cents by which the hold is increased, and that are captured
		want           int64 // spends at the end
	}{
		{why: "a void gives the spend back", want: 0},
		{why: "a void of a hold of two parts gives one spend back", more: 2, want: 0},
		{why: "a capture is a spend, and the release of the rest gives none back", captured: 3, want: 1},
		{why: "so it is with two parts", more: 2, captured: 3, want: 1},
		{why: "a capture of more than was held is no further spend", captured: 6, want: 1},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Count("often", 5, day))
		hold(t, b, "other", 1, day)
		hold(t, b, "h", 5, time.Hour)
		if c.more > 0 {
			increase(t, b, "h", c.more)
		}
		if c.captured > 0 {
			capture(t, b, spend.CaptureRequest{HoldID: "h", Amount: cents(c.captured), Final: true, Force: true})
		} else {
			void(t, b, "h")
		}
		for _, when := range []string{"at first", "after the TTL"} {
			if got := used(t, b) - 1; got != c.want {
				t.Errorf("%s: %s, the hold counts as %d spends, want %d", c.why, when, got, c.want)
			}
			l.now = l.now.Add(time.Hour)
		}
	}
}
