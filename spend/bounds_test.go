package spend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

const century = 100 * 366 * day // the longest window and TTL

// TestLastGoodBudgets: the bounds of names, windows and times are good themselves, and one more is
// not.
func TestLastGoodBudgets(t *testing.T) {
	name := strings.Repeat("n", 64)
	ever := spend.Lifetime("r", cents(2))
	in := func(p spend.Period) spend.Rule { return spend.Calendar("r", cents(1), p, time.UTC) }
	daily, week, month := in(spend.Day), in(spend.Week), in(spend.Month)
	for _, c := range []struct {
		name      string
		good, bad spend.Rule
	}{
		{"a name", spend.Lifetime(name, cents(1)), spend.Lifetime(name+"n", cents(1))},
		{"the shortest window", spend.Rolling("r", cents(1), time.Microsecond), spend.Rolling("r", cents(1), 999)},
		{"the longest window", spend.Rolling("r", cents(1), century), spend.Rolling("r", cents(1), century+1)},
		{
			"the largest bucket",
			spend.Leaky("r", cents(store.MaxAmount), time.Hour), spend.Leaky("r", cents(store.MaxAmount+1), time.Hour),
		},
		{"the slowest leak", spend.Leaky("r", cents(1), century), spend.Leaky("r", cents(1), century+1)},
		{
			"the fastest leak",
			spend.Leaky("r", cents(store.MaxAmount), time.Second), spend.Leaky("r", cents(store.MaxAmount), time.Second/2),
		},
		{"a period", in(spend.Year), in(spend.Year + 1)},
		{"the first weekday", week.WeekStarting(time.Sunday), week.WeekStarting(time.Sunday - 1)},
		{"the last weekday", week.WeekStarting(time.Saturday), week.WeekStarting(time.Saturday + 1)},
		{"the first day of the month", month.MonthStarting(1), month.MonthStarting(0)},
		{"the last day of the month", month.MonthStarting(31), month.MonthStarting(32)},
		{"the first time of the day", daily.DayStarting(0), daily.DayStarting(-time.Microsecond)},
		{"the last time of the day", daily.DayStarting(day - time.Microsecond), daily.DayStarting(day)},
		{"the least amount to match", ever.MatchingAtLeast(cents(1)), ever.MatchingAtLeast(cents(0))},
		{"the longest tag", ever.Per(name), ever.Per(name + "n")},
		{"the least AtMost", ever.AtMost(cents(2)), ever.AtMost(cents(1))},
		{"the currency of AtMost", ever.AtMost(cents(3)), ever.AtMost(spend.Money{Minor: 3, Currency: "USD"})},
	} {
		for want, rule := range map[bool]spend.Rule{true: c.good, false: c.bad} {
			_, err := spend.New(t.Context(), memledger.New(nil), spend.Budget{Name: "b", Currency: "EUR", Rules: []spend.Rule{rule}}, nil)
			if (err == nil) != want || !want && !errors.Is(err, spend.ErrBudget) {
				t.Errorf("%s: %v; want good = %v", c.name, err, want)
			}
		}
	}
	for _, c := range []struct {
		name      string
		good, bad spend.Options
	}{
		{"the shortest hold", spend.Options{HoldTTL: time.Microsecond}, spend.Options{HoldTTL: 999}},
		{
			"IDs as long as holds",
			spend.Options{HoldTTL: time.Hour, KeepIDs: time.Hour},
			spend.Options{HoldTTL: time.Hour, KeepIDs: time.Hour - 1},
		},
		{"the longest IDs", spend.Options{KeepIDs: century}, spend.Options{KeepIDs: century + 1}},
	} {
		b := spend.Budget{Name: "b", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(1))}}
		for want, o := range map[bool]spend.Options{true: c.good, false: c.bad} {
			if _, err := spend.New(t.Context(), memledger.New(nil), b, &o); (err == nil) != want {
				t.Errorf("%s: %v; want good = %v", c.name, err, want)
			}
		}
	}
}

// TestLastGoodRequest has every field of a request at its bound.
func TestLastGoodRequest(t *testing.T) {
	b := budgets(t, newTestLedger(t), spend.Leaky("leaky", cents(store.MaxAmount), time.Hour))
	tags := map[string]string{strings.Repeat("t", 64): strings.Repeat("v", 256)}
	for i := range 15 {
		tags[fmt.Sprint(i)] = ""
	}
	for _, ttl := range []time.Duration{time.Microsecond, century} {
		r := spend.Request{
			ID: fmt.Sprintf("%0128d", ttl), Account: fmt.Sprint(ttl), Amount: cents(store.MaxAmount), Tags: tags, TTL: ttl,
		}
		for i := range 15 {
			r.Also = append(r.Also, spend.Account{Budget: "cards", Name: fmt.Sprint(ttl, i)})
		}
		if d, err := b.Authorize(t.Context(), r); err != nil || !d.Approved {
			t.Errorf("an authorization for %v: %v; want an approval", ttl, err)
			continue
		}
		c := spend.CaptureRequest{ID: "c" + r.ID[1:], HoldID: r.ID, Amount: r.Amount, Final: true}
		if d, err := b.Capture(t.Context(), c); err != nil || !d.Approved {
			t.Errorf("a capture of all, held for %v: %v", ttl, err)
		}
	}
	approve(t)(b.Freeze(t.Context(), spend.FreezeRequest{ID: "f", Account: "a", Reason: strings.Repeat("r", 256)}))
}

// TestVerifyAfterPrune: Verify proves what the entries that are left can prove.
func TestVerifyAfterPrune(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(1000), 200*day), spend.Leaky("leaky", cents(1<<40), 1<<30*time.Second))
	sound(t, b) // the account does not exist
	charge(t, b, "1", 100)
	sound(t, b)
	l.now = l.now.Add(250 * day)
	charge(t, b, "2", 100)
	l.now = l.now.Add(100 * day)
	prune(t, b)
	if got := left(t, b, "a"); got != "[spend]" {
		t.Fatalf("the entries left are %s; want the second spend", got)
	}
	sound(t, b)
	l.damage(oneMore("2"))
	if err := b.Verify(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Verify with another amount: %v; want ErrCorrupt", err)
	}
	l.wrap = nil
	l.now = l.now.Add(300 * day)
	prune(t, b)
	sound(t, b) // without any entry
	charge(t, b, "3", 100)
	sound(t, b)
}

// TestDefaultKeepIDs: without an option, an ID is known for 200 days, and its entry stays as long.
func TestDefaultKeepIDs(t *testing.T) {
	l := newTestLedger(t)
	b, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("window", cents(1), day)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	charge(t, b, "s", 1)
	l.now = l.now.Add(200*day - time.Microsecond)
	for i, want := range []spend.PruneResult{{}, {}, {Requests: 1}} {
		done, err := b.Prune(t.Context())
		if err != nil || done != want || (i == 0) != (left(t, b, "a") == "[spend]") {
			t.Errorf("after 200 days and %d microseconds: %+v, %v, and the entries are %s", i-1, done, err, left(t, b, "a"))
		}
		l.now = l.now.Add(time.Microsecond)
	}
}
