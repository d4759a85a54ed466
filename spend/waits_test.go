package spend_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestWaitsAreTheShortest makes random histories. After the RetryAfter of a decline the amount is
// approved, and not a microsecond before. At GrowsAt more remains, and not a microsecond before.
// The entries add up to the figures, and none of them is empty.
func TestWaitsAreTheShortest(t *testing.T) {
	first, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	waits, grows := make(map[string]int), make(map[string]int)
	for n := first; n < first+60; n++ {
		t.Logf("BRIM_SEED=%d repeats the history from here", n)
		r := rand.New(rand.NewPCG(n, 0))
		l := newTestLedger(t)
		rules := []spend.Rule{
			spend.Rolling("window", cents(100), 2*day),
			spend.Leaky("leaky", cents(128), 1<<17*time.Second),
			spend.Calendar("day", cents(90), spend.Day, time.UTC),
			spend.Count("often", 6, 2*day),
			spend.Lifetime("ever", cents(2000)),
		}
		rule := rules[n%uint64(len(rules))]
		if r.IntN(2) == 0 {
			rule = rule.Matching("kind", "some")
		}
		b := budgets(t, l, rule)
		tag := map[string]string{"kind": "some"}
		var spends []string
		for step := range 40 {
			id := fmt.Sprint(step)
			req := spend.Request{ID: id, Account: "a", Amount: cents(1 + r.Int64N(40)), Tags: tag}
			if r.IntN(4) == 0 {
				req.Tags = nil
			}
			switch how := r.IntN(10); {
			case how < 4:
				req.TTL = time.Duration(1 + r.Int64N(int64(3*day)))
				_, err = b.Authorize(t.Context(), req)
				spends = append(spends, id)
			case how < 7:
				_, err = b.Charge(t.Context(), req)
				spends = append(spends, id)
			case how < 8 && len(spends) > 0:
				old := spends[r.IntN(len(spends))]
				// It may have ended, or have less than the amount.
				_, _ = b.Capture(t.Context(), spend.CaptureRequest{
					ID: id, HoldID: old, Amount: cents(1 + r.Int64N(20)), Final: r.IntN(3) == 0, Force: r.IntN(3) == 0,
				})
				_, _ = b.Increase(t.Context(), spend.IncreaseRequest{ID: "more " + id, HoldID: old, Amount: cents(1 + r.Int64N(9))})
			case how < 9 && len(spends) > 0:
				old := spends[r.IntN(len(spends))]
				_, _ = b.Refund(t.Context(), spend.RefundRequest{ID: id, SpendID: old, Amount: cents(1 + r.Int64N(10))})
			default:
				l.now = l.now.Add(time.Duration(r.Int64N(int64(day))).Truncate(time.Microsecond))
			}
			if err != nil {
				t.Fatal(err)
			}
			now := l.now
			for i, u := range remaining(t, b, "a") {
				if u.GrowsAt.IsZero() {
					continue
				}
				grows[u.Rule]++
				l.now = u.GrowsAt
				after := remaining(t, b, "a")[i].Remaining
				l.now = l.now.Add(-time.Microsecond)
				before := remaining(t, b, "a")[i].Remaining
				if after.Minor <= u.Remaining.Minor || before.Minor > u.Remaining.Minor {
					t.Fatalf("BRIM_SEED=%d, step %d, rule %s: %v remains, %v at GrowsAt, and %v a microsecond before",
						n, step, u.Rule, u.Remaining, after, before)
				}
			}
			l.now = now
		}
		sound(t, b)
		for _, e := range lines(t, b, "a") {
			if empty := e.Used.Minor == 0 && e.Held.Minor == 0; empty != (e.Kind == "decline") {
				t.Fatalf("BRIM_SEED=%d: %+v; want a change of money in each entry but those of declines", n, e)
			}
		}
		// The waits of declines, for every amount.
		for amount := int64(1); amount <= 130; amount += 3 {
			ask := func() spend.Decision {
				d, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(amount), Tags: tag})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			d := ask()
			if d.Approved || d.RetryAfter == store.Never {
				continue
			}
			waits[d.Declines[0].Rule]++
			now := l.now
			l.now = now.Add(d.RetryAfter)
			after := ask()
			l.now = l.now.Add(-time.Microsecond)
			before := ask()
			if l.now = now; !after.Approved && !d.Declines[0].AtLeast || before.Approved {
				t.Fatalf("BRIM_SEED=%d, rule %s: %d cents have RetryAfter %v; approved then: %v, and a microsecond before: %v",
					n, d.Declines[0].Rule, amount, d.RetryAfter, after.Approved, before.Approved)
			}
		}
	}
	t.Logf("%v waits, %v times at which more remains", waits, grows)
	for _, rule := range []string{"window", "leaky", "day", "often"} {
		if waits[rule] < 10 || grows[rule] < 10 {
			t.Errorf("rule %s: %d waits and %d times at which more remains; want more of both", rule, waits[rule], grows[rule])
		}
	}
}

// TestGrowsAtOfDecisions: a decision has the GrowsAt that needs no entries.
func TestGrowsAtOfDecisions(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  spend.Rule
		spent int64
		hold  int64
		after time.Duration // since the spend; 0 for no GrowsAt
	}{
		{"leaky", spend.Leaky("r", cents(100), 100*time.Second), 10, 0, time.Second},
		{"leaky, one cent", spend.Leaky("r", cents(100), 100*time.Second), 1, 0, time.Second},
		{"leaky, with a hold", spend.Leaky("r", cents(100), 100*time.Second), 10, 1, 0},
		{"calendar", spend.Calendar("r", cents(100), spend.Day, time.UTC), 10, 0, 12 * time.Hour},
		{"calendar, one cent", spend.Calendar("r", cents(100), spend.Day, time.UTC), 1, 0, 12 * time.Hour},
		{"calendar, with a hold", spend.Calendar("r", cents(100), spend.Day, time.UTC), 10, 1, 0},
		{"rolling", spend.Rolling("r", cents(100), day), 10, 0, 0},
		{"per transaction", spend.PerTransaction("r", cents(100)), 10, 0, 0},
		{"leaky, empty", spend.Leaky("r", cents(100), 100*time.Second), 0, 0, 0},
		{"calendar, empty", spend.Calendar("r", cents(100), spend.Day, time.UTC), 0, 0, 0},
		{"leaky, with nothing but a hold", spend.Leaky("r", cents(100), 100*time.Second), 0, 1, 0},
		{"calendar, with nothing but a hold", spend.Calendar("r", cents(100), spend.Day, time.UTC), 0, 1, 0},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, c.rule)
		if c.spent > 0 {
			charge(t, b, "s", c.spent)
		}
		if c.hold > 0 {
			hold(t, b, "h", c.hold, 7*day)
		}
		var want time.Time
		if c.after > 0 {
			want = l.now.Add(c.after)
		}
		if got := asked(t, b, 1).Remaining[0].GrowsAt; !got.Equal(want) {
			t.Errorf("%s: GrowsAt is %v, want %v", c.name, got, want)
		}
	}
}

// TestEndOfARaise: a raise ends before another rule has room, so a request waits for the room of
// both rules. A request that the raised rule does not match waits for the other one alone.
func TestEndOfARaise(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l,
		spend.Calendar("day", cents(100), spend.Day, time.UTC),
		spend.Rolling("travel", cents(50), 2*day).AtMost(cents(200)).Matching("category", "travel"),
	)
	setLimit(t, b, "1", spend.RuleLimit{Rule: "travel", Amount: cents(200), Until: l.now.Add(time.Minute)})
	travel := spend.Request{ID: "2", Account: "a", Amount: cents(60), Tags: map[string]string{"category": "travel"}}
	approve(t)(b.Charge(t.Context(), travel))
	travel.Amount = cents(50)
	if d, err := b.AbleToAccept(t.Context(), travel); err != nil || d.RetryAfter != 2*day {
		t.Errorf("%+v, %v; want that 50 cents fit after two days: when the charge leaves the window", d, err)
	}
	if got := wait(t, b, 50); got != day/2 {
		t.Errorf("50 cents for something else fit after %v, want 12h: when the day ends", got)
	}
}
