package spend_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
)

// TestDecreaseOfParts releases the newest part first, to the last cent, and passes over parts of
// which nothing is held.
func TestDecreaseOfParts(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	hold(t, b, "h", 10, time.Hour)
	increase(t, b, "h", 5)
	for i, n := range []int64{1, 6, 1, 3} {
		approve(t)(b.Decrease(t.Context(), spend.DecreaseRequest{ID: fmt.Sprint(i), HoldID: "h", Amount: cents(n)}))
	}
	figures(t, b, "a", 0, 4)
	got := l.parts(t)[2:]
	want := []string{"decrease 1 of 2", "decrease 4 of 2", "decrease 2 of 1", "decrease 1 of 1", "decrease 3 of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("the entries are %q, want %q", got, want)
	}
}

// TestCreditOfAccounts: a credit reaches every account, to the last cent.
func TestCreditOfAccounts(t *testing.T) {
	b := budgets(t, newTestLedger(t), spend.Lifetime("ever", cents(100)).CountsCredits())
	r := spend.Request{ID: "s", Account: "a", Amount: cents(5), Also: []spend.Account{{Budget: "cards", Name: "b"}}}
	approve(t)(b.Charge(t.Context(), r))
	for i := range int64(2) {
		r.ID, r.Amount = fmt.Sprint(i), cents(1)
		approve(t)(b.Credit(t.Context(), r))
		figures(t, b, "a", 4-i, 0)
		figures(t, b, "b", 4-i, 0)
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

// TestFurthestTimes: the date of a record and the end of a limit are within 2^53 microseconds of
// 1970.
func TestFurthestTimes(t *testing.T) {
	for _, c := range []struct {
		at time.Time
		ok bool
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
		_, err := b.Record(t.Context(), spend.Request{ID: "r", Account: "a", Amount: cents(1), Dated: c.at.UTC()})
		_, limitErr := b.SetLimits(t.Context(), spend.LimitsRequest{ID: "l", Account: "a", Limits: []spend.RuleLimit{
			{Rule: "ever", Amount: cents(1), Until: c.at.UTC()},
		}})
		for what, err := range map[string]error{"a record of": err, "a limit until": limitErr} {
			if (err == nil) != c.ok || err != nil && !errors.Is(err, spend.ErrRequest) {
				t.Errorf("%s %v: %v; want that it passes is %v", what, c.at.UTC(), err, c.ok)
			}
		}
	}
}
