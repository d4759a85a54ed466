package spend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestExplain: long after a decision, Explain has the figures that Remaining had just before it,
// and their parts, by the rules of then: also of declines, and after refunds, cancellations, a
// freeze and other rules.
func TestExplain(t *testing.T) {
	checked := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(3, seed))
		l := newTestLedger(t)
		rules := []spend.Rule{
			spend.Rolling("day", cents(100), day), spend.Calendar("month", cents(900), spend.Month, time.UTC), spend.Count("often", 5, day),
			spend.Lifetime("ever", cents(2000)), spend.Rolling("each", cents(60), 2*day).Per("shop"), spend.Count("tries", 9, day).CountsDeclines(),
			spend.Rolling("large", cents(80), 3*day).MatchingAtLeast(cents(20)), spend.Rolling("draft", cents(50), day).Shadow(),
			spend.Leaky("leaky", cents(200), 10*day), spend.PerTransaction("one", cents(44)),
		}
		b := budgets(t, l, rules...)
		type was struct {
			tags   map[string]string
			amount int64
			list   []spend.Usage
			d      spend.Decision
		}
		all := make(map[string]was)
		var ids []string
		for n := range 40 {
			l.now = l.now.Add(time.Duration(r.IntN(8*3600)) * time.Second)
			q := spend.Request{ID: fmt.Sprint(n), Account: "a", Amount: cents(1 + r.Int64N(45)), Tags: map[string]string{"shop": fmt.Sprint(r.IntN(3))}, TTL: day / 2}
			of := fmt.Sprint(r.IntN(n + 1))
			list, err := b.Remaining(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			switch r.IntN(7) {
			case 0, 1, 2:
				d, err := b.Charge(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				all[q.ID] = was{q.Tags, q.Amount.Minor, list, d}
				ids = append(ids, q.ID)
			case 3, 4:
				d, err := b.Authorize(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				all[q.ID] = was{q.Tags, q.Amount.Minor, list, d}
				ids = append(ids, q.ID)
			case 5:
				_, _ = b.Refund(t.Context(), spend.RefundRequest{ID: q.ID, SpendID: of, Amount: cents(1 + r.Int64N(20))})
			case 6:
				_, _ = b.Capture(t.Context(), spend.CaptureRequest{ID: q.ID, HoldID: of, Amount: cents(1 + r.Int64N(20)), Force: true})
			}
		}
		canceled := ids[r.IntN(len(ids))]
		if _, err := b.Cancel(t.Context(), canceled, "a"); err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(21 * day)
		b = budgets(t, l, spend.Lifetime("ever", cents(1)), spend.Count("other", 1, day))
		for _, id := range ids {
			x, err := b.Explain(t.Context(), id)
			if err != nil || x.Revision != 0 {
				t.Fatalf("seed %d, %s: %+v, %v", seed, id, x, err)
			}
			w := all[id]
			refused := make(map[string]bool)
			for _, d := range w.d.Declines {
				refused[d.Rule] = true
			}
			for _, u := range w.d.Shadow {
				refused[u.Rule] = true
			}
			if want := 8; w.amount >= 20 && len(x.Rules) != want+1 || w.amount < 20 && len(x.Rules) != want {
				t.Fatalf("seed %d, %s: %d rules are explained", seed, id, len(x.Rules))
			}
			for _, h := range x.Rules {
				if h.Rule == "leaky" {
					if h.Incomplete == "" {
						t.Errorf("a bucket: %+v", h)
					}
					continue
				}
				var want spend.Usage
				for _, u := range w.list {
					if u.Rule == h.Rule && u.Value == h.Value {
						want = u
					}
				}
				var used, held int64
				for _, c := range h.Counted {
					used, held = used+c.Used.Minor, held+c.Held.Minor
				}
				sum := h.Used.Minor + h.Held.Minor
				if h.Used.Minor != want.Used.Minor || h.Held.Minor != want.Held.Minor || used+held != sum || h.Refused != refused[h.Rule] || h.Incomplete != "" ||
					h.Shadow != (h.Rule == "draft") || id != canceled && want.Limit != (spend.Money{}) && h.Limit != want.Limit {
					t.Errorf("seed %d, %s: %+v; before the decision it was %+v, and refused is %t", seed, id, h, want, refused[h.Rule])
				}
				checked++
			}
		}
		if t.Failed() {
			return
		}
		if _, err := b.Explain(t.Context(), "unknown"); !errors.Is(err, spend.ErrUnknownSpend) {
			t.Errorf("an unknown ID: %v", err)
		}
	}
	t.Logf("%d rules explained", checked)
}

// TestExplainOpenHold: a rule that counts spends has counted an open hold as one, and holds
// nothing.
func TestExplainOpenHold(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Count("often", 5, day))
	hold(t, b, "h", 1, day)
	charge(t, b, "c", 1)
	x, err := b.Explain(t.Context(), "c")
	if err != nil || len(x.Rules) != 1 || len(x.Rules[0].Counted) != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	if c := x.Rules[0].Counted[0]; c.Used.Minor != 1 || c.Held.Minor != 0 || x.Rules[0].Used != c.Used {
		t.Errorf("%+v; want a hold that counts as one", x.Rules[0])
	}
}
