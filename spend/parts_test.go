package spend_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// TestRefundOfParts gives back the newest part of a spend first, and each part once.
func TestRefundOfParts(t *testing.T) {
	l := newTestLedger(t)
	_, b := everyRule(t, l)
	must := func(d spend.Decision, err error) {
		t.Helper()
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	must(b.Authorize(t.Context(), spend.Request{ID: "s", Account: "a", Amount: cents(10)}))
	must(b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "s", Amount: cents(5)}))
	must(b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "s", Amount: cents(16), Force: true}))
	for i, n := range []int64{8, 7} {
		must(b.Refund(t.Context(), spend.RefundRequest{ID: fmt.Sprint("r", i), SpendID: "s", Amount: cents(n)}))
	}
	if _, err := b.Refund(t.Context(), spend.RefundRequest{ID: "r0", SpendID: "s", Amount: cents(1)}); !errors.Is(err, spend.ErrIDReused) {
		t.Errorf("another amount with the ID of the first refund: %v; want ErrIDReused", err)
	}
	if _, err := b.Refund(t.Context(), spend.RefundRequest{ID: "r", SpendID: "s", Amount: cents(2)}); !errors.Is(err, spend.ErrNotCaptured) {
		t.Errorf("a refund of 2 cents where 1 is left: %v; want ErrNotCaptured", err)
	}
	must(b.Refund(t.Context(), spend.RefundRequest{ID: "last", SpendID: "s", Amount: cents(1)}))
	var got []string
	for _, e := range l.entries(t) {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Amount, " of ", e.Part))
	}
	slices.Reverse(got)
	want := []string{
		"authorize 10 of 1", "increase 5 of 2", "capture 10 of 1", "capture 5 of 2", "capture 1 of 5",
		"refund 1 of 5", "refund 5 of 2", "refund 2 of 1", "refund 7 of 1", "refund 1 of 1",
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
		{"a void", "a void ended it", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Void(t.Context(), spend.VoidRequest{ID: "e", HoldID: "s"})
		}, 0},
		{"a final capture of one cent", "a capture ended it", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(1), Final: true})
		}, 1},
		{"a final capture of nothing", "a void ended it", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(0), Final: true})
		}, 0},
		{"a capture of all", "a capture ended it", func(b *spend.Budgets) (spend.Decision, error) {
			return b.Capture(t.Context(), spend.CaptureRequest{ID: "e", HoldID: "s", Amount: cents(10)})
		}, 1},
	} {
		l := newTestLedger(t)
		_, b := everyRule(t, l)
		if _, err := b.Authorize(t.Context(), spend.Request{ID: "s", Account: "a", Amount: cents(10)}); err != nil {
			t.Fatal(err)
		}
		d, err := c.end(b)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, u := range d.Remaining {
			if u.Held.Minor != 0 || u.Rule == "often" && u.Used.Minor != c.count {
				t.Errorf("%s: %+v; want nothing held, and %d spends", c.name, u, c.count)
			}
		}
		late := spend.CaptureRequest{ID: "l", HoldID: "s", Amount: cents(1)}
		if _, err = b.Capture(t.Context(), late); !errors.Is(err, spend.ErrHoldEnded) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a capture after %s: %v; want an error that says %q", c.name, err, c.says)
		}
		late.Force = true
		if d, err = b.Capture(t.Context(), late); err != nil || d.Remaining[3].Used.Minor != 1 || d.Remaining[3].Held.Minor != 0 {
			t.Errorf("a forced capture after %s: %+v, %v; want one spend, and nothing held", c.name, d.Remaining[3], err)
		}
		late.ID, late.Force = "later", false
		if _, err = b.Capture(t.Context(), late); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a capture after a forced one after %s: %v; want an error that says %q", c.name, err, c.says)
		}
	}
}

// watcher is a ledger that shows the changes of each decision.
type watcher struct {
	ledger.Ledger
	changes *ledger.Changes
}

func (l *watcher) Decide(ctx context.Context, job *ledger.Job) error {
	other := *job
	other.Run = func(snap ledger.Snapshot) (c *ledger.Changes, err error) {
		l.changes, err = job.Run(snap)
		return l.changes, err
	}
	return l.Ledger.Decide(ctx, &other)
}

// TestWhereSpendsAreStored: a new spend comes with its request, and a later request changes it.
func TestWhereSpendsAreStored(t *testing.T) {
	l, b := busyAccount(t)
	w := &watcher{Ledger: l}
	b = b.With(w)
	for name, changes := range map[string]bool{"Charge": false, "Increase": true, "Capture": true, "Refund": true, "Charge, declined": false} {
		w.changes = nil
		l, _ = busyAccount(t)
		w.Ledger = l
		d, err := calls[name](t.Context(), b)
		if err != nil || w.changes == nil || len(w.changes.Requests) != 1 {
			t.Fatalf("%s: %+v, %v, %+v; want a request that is stored", name, d, err, w.changes)
		}
		begins := d.Approved && !changes
		if (w.changes.Requests[0].Spend != nil) != begins || (len(w.changes.Spends) == 1) != changes {
			t.Errorf("%s stores %+v; begins a spend: %v, changes one: %v", name, w.changes, begins, changes)
		}
	}
}

// TestHistoryPages reads a history that is longer than a page.
func TestHistoryPages(t *testing.T) {
	l := newTestLedger(t)
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(math.MaxInt64))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const all = 410
	for i := range all {
		if _, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(1)}); err != nil {
			t.Fatal(err)
		}
	}
	first := spend.Entry{Seq: 1, At: l.now}
	for _, c := range []struct {
		o    *spend.HistoryOptions
		want int
	}{
		{nil, all},
		{&spend.HistoryOptions{Limit: 1}, 1},
		{&spend.HistoryOptions{Limit: 300}, 300},
		{&spend.HistoryOptions{Limit: 400}, 400},
		{&spend.HistoryOptions{Before: first}, 0},
		{&spend.HistoryOptions{Before: spend.Entry{Seq: 2, At: l.now}}, 1},
	} {
		n, before := 0, int64(math.MaxInt64)
		for e, err := range b.History(t.Context(), "a", c.o) {
			if n++; err != nil || e.Seq >= before {
				t.Fatalf("%+v: entry %d after %d, %v", c.o, e.Seq, before, err)
			}
			before = e.Seq
		}
		if n != c.want {
			t.Errorf("%+v: %d entries, want %d", c.o, n, c.want)
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
	} {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Count("often", 5, day))
		hold(t, b, "other", 1, time.Hour)
		hold(t, b, "h", 5, time.Hour)
		var err error
		if c.more > 0 {
			_, err = b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(c.more)})
		}
		if err == nil && c.captured > 0 {
			_, err = b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(c.captured), Final: true})
		} else if err == nil {
			_, err = b.Void(t.Context(), spend.VoidRequest{ID: "v", HoldID: "h"})
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := used(t, b) - 1; got != c.want {
			t.Errorf("%s: the hold counts as %d spends, want %d", c.why, got, c.want)
		}
	}
}
