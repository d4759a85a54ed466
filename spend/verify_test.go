package spend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestVerifyFindsStaleSpends: a stored spend or hold that is whole, but is not as the entries tell,
// is found, in both directions.
func TestVerifyFindsStaleSpends(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ledger.Changes) // of each decision, before the ledger stores it
	}{
		{"spends stay as they began", func(c *ledger.Changes) { c.Spends = nil }},
		{"no request is stored", func(c *ledger.Changes) { c.Requests = nil }},
		{"no hold is stored", func(c *ledger.Changes) { c.Opened = nil }},
		{"no hold is closed", func(c *ledger.Changes) { c.Closed = nil }},
		{"holds have another end", func(c *ledger.Changes) {
			for i := range c.Opened {
				c.Opened[i].Expires++
			}
		}},
		{"the last entry is lost", func(c *ledger.Changes) { c.Entries = c.Entries[:len(c.Entries)-1] }},
	} {
		for _, last := range []string{"refund", "capture", "authorize", "void"} {
			l := newTestLedger(t)
			b := budgets(t, l, spend.Rolling("window", cents(1000), 2*day))
			charge(t, b, "charge", 100)
			hold(t, b, "held", 100, day)
			changed := false
			l.changed = func(stored *ledger.Changes) {
				before := fmt.Sprint(*stored)
				c.change(stored)
				changed = fmt.Sprint(*stored) != before
			}
			switch last {
			case "refund":
				refund(t, b, "charge", 10)
			case "capture":
				capture(t, b, spend.CaptureRequest{HoldID: "held", Amount: cents(60), Final: true})
			case "authorize":
				hold(t, b, "new", 1, day)
			case "void":
				void(t, b, "held")
			}
			l.changed = nil
			if err := b.Verify(t.Context(), "a"); errors.Is(err, store.ErrCorrupt) != changed {
				t.Errorf("%s, %s: %v; want ErrCorrupt: %t", last, c.name, err, changed)
			}
		}
	}
}

// TestVerifyExpiredHold: a hold that the ledger has lost is missed, also when it has expired and is
// out of the figures: no entry has ended it.
func TestVerifyExpiredHold(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(1000), 2*day))
	l.changed = func(c *ledger.Changes) { c.Opened = nil }
	hold(t, b, "held", 100, time.Hour)
	l.changed = nil
	l.now = l.now.Add(day)
	charge(t, b, "later", 1)
	if err := b.Verify(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v; want ErrCorrupt", err)
	}
}

// TestVerifyBesideCallers: an account is sound while others decide on it and prune it, between the
// pages that Verify reads.
func TestVerifyBesideCallers(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(1<<40), day), spend.Lifetime("ever", cents(1<<40)))
	n := 0
	more := func(holds int) {
		for range holds {
			n++
			hold(t, b, fmt.Sprint(n), 5, time.Hour)
			capture(t, b, spend.CaptureRequest{HoldID: fmt.Sprint(n), Amount: cents(3), Final: n%3 == 0})
			l.now = l.now.Add(time.Second)
		}
	}
	more(1500)
	views := 0
	l.viewed = func() {
		viewed := l.viewed
		l.viewed = nil
		defer func() { l.viewed = viewed }()
		switch views++; views {
		case 2:
			l.now = l.now.Add(100 * day)
			prune(t, b) // of entries that were not read yet
		case 4:
			refund(t, b, fmt.Sprint(n), 1)
			fallthrough
		default:
			more(2)
		}
	}
	sound(t, b)
	if views < 5 {
		t.Errorf("%d Views; want some more", views)
	}
}

// TestCreditsOfLongWindows is a sequence of which Verify once said that it was damaged.
func TestCreditsOfLongWindows(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Calendar("year", cents(1000), spend.Month, time.UTC).CountsCredits(), spend.Rolling("window", cents(1000), 180*day))
	charge(t, b, "first", 33)
	credit(t, b, "credit", 7)
	charge(t, b, "second", 12)
	approve(t)(b.Authorize(t.Context(), spend.Request{ID: "held", Account: "a", Amount: cents(5), TTL: day, OnExpiry: spend.SpendOnExpiry}))
	sound(t, b)
	approve(t)(b.Cancel(t.Context(), "first", "a"))
	sound(t, b)
	for range 2 {
		l.now = l.now.Add(100 * day)
		prune(t, b)
		sound(t, b)
	}
}

// changing is a job whose changes a test changes.
func changing(job *ledger.Job, change func(*ledger.Changes)) *ledger.Job {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(snap)
		if c != nil {
			change(c)
		}
		return c, err
	}
	return &other
}
