package spend_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// TestManyOpenHolds: a decision on an account with many open holds reads, writes and stores as much
// as on one with ten.
func TestManyOpenHolds(t *testing.T) {
	works := make(map[string]work)
	for _, n := range []int{10, seed.Attempts(10_000, 100_000)} {
		m := &measured{testLedger: newTestLedger(t)}
		b := budgets(t, m,
			spend.Rolling("window", cents(1<<40), 30*day), spend.Leaky("leaky", cents(1<<40), 30*day), spend.Lifetime("ever", cents(1<<40)),
			spend.Calendar("year", cents(1<<40), spend.Year, time.UTC), spend.Count("often", 1<<40, 30*day),
		)
		for i := range n {
			hold(t, b, fmt.Sprint("h", i), 10, 7*day)
			m.now = m.now.Add(day / time.Duration(n)) // no hold expires meanwhile
		}
		for _, c := range []struct {
			name   string
			decide func()
		}{
			{"charge", func() { charge(t, b, "c", 1) }},
			{"authorize", func() { hold(t, b, "new", 1, 7*day) }},
			{"capture a part", func() { capture(t, b, spend.CaptureRequest{HoldID: "h3", Amount: cents(3)}) }},
			{"capture", func() { capture(t, b, spend.CaptureRequest{HoldID: "h7", Amount: cents(3), Final: true}) }},
		} {
			m.w = work{}
			c.decide()
			few, is := works[c.name]
			if !is {
				works[c.name] = m.w
				continue
			}
			// 32 ends of holds take some bytes each, which is the bound whatever their number.
			if m.w.read > few.read || m.w.written > few.written || m.w.state > few.state+32*48 {
				t.Errorf("%s with %d open holds: %+v; with 10 it was %+v", c.name, n, m.w, few)
			}
		}
	}
}

// paging is a ledger that counts the holds of each View.
type paging struct {
	*testLedger
	pages  []int
	viewed func(page int)
}

func (p *paging) View(ctx context.Context, job *ledger.Job) error {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		w := new(work)
		defer func() { p.pages = append(p.pages, w.read) }()
		return job.Run(working{snap, w})
	}
	err := p.testLedger.View(ctx, &other)
	if p.viewed != nil {
		p.viewed(len(p.pages))
	}
	return err
}

// TestHoldsByPages: Holds reads 200 holds in each View, and no hold that has expired. Changes
// between two pages show as its comment says.
func TestHoldsByPages(t *testing.T) {
	for _, c := range []struct {
		name          string
		expired, open int
		then          func(b *spend.Budgets) // after the first page
		pages, want   int
	}{
		{"none", 0, 0, nil, 1, 0},
		{"a page", 0, 200, nil, 1, 200},
		{"a page and one", 0, 201, nil, 2, 201},
		{"many of one expiry behind expired ones", 2000, 450, nil, 3, 450},
		{"one of the next page ends", 0, 450, func(b *spend.Budgets) { capture(t, b, spend.CaptureRequest{HoldID: "open 300", Amount: cents(1)}) }, 3, 449},
		{"one of the page before ends", 0, 450, func(b *spend.Budgets) { capture(t, b, spend.CaptureRequest{HoldID: "open 100", Amount: cents(1)}) }, 3, 450},
		{"the last of the page before ends", 0, 450, func(b *spend.Budgets) { capture(t, b, spend.CaptureRequest{HoldID: "open 199", Amount: cents(1)}) }, 3, 450},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &paging{testLedger: newTestLedger(t)}
			b := budgets(t, p, spend.Lifetime("ever", cents(1<<40)))
			for i := range c.expired {
				hold(t, b, fmt.Sprintf("expired %04d", i), 1, time.Hour)
			}
			p.now = p.now.Add(time.Hour)
			for i := range c.open {
				hold(t, b, fmt.Sprintf("open %03d", i), 1, day)
			}
			p.viewed = func(page int) {
				if page == 1 && c.then != nil {
					c.then(b)
				}
			}
			p.pages = nil
			list, err := collect(b.Holds(t.Context(), "a"))
			if err != nil || len(list) != c.want || len(p.pages) != c.pages || slices.Max(p.pages) > 200 {
				t.Errorf("%d holds in pages of %v, %v; want %d in %d pages", len(list), p.pages, err, c.want, c.pages)
			}
			if !slices.IsSortedFunc(list, func(x, y spend.Status) int { return x.ExpiresAt.Compare(y.ExpiresAt) }) {
				t.Error("the holds are not in the order of their expiry")
			}
			ids := make(map[string]bool)
			for _, h := range list {
				ids[h.ID] = true
			}
			if len(ids) != len(list) {
				t.Errorf("%d holds, of which %d are different", len(list), len(ids))
			}
		})
	}
}
