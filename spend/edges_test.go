package spend_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// budgets returns budgets called cards with these rules.
func budgets(t *testing.T, l ledger.Ledger, rules ...spend.Rule) *spend.Budgets {
	t.Helper()
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// charge spends from account a.
func charge(t *testing.T, b *spend.Budgets, id string, n int64) {
	t.Helper()
	d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n)})
	if err != nil || !d.Approved {
		t.Fatalf("charge %s: %+v, %v", id, d, err)
	}
}

// hold reserves money in account a.
func hold(t *testing.T, b *spend.Budgets, id string, n int64, ttl time.Duration) {
	t.Helper()
	d, err := b.Authorize(t.Context(), spend.Request{ID: id, Account: "a", Amount: cents(n), TTL: ttl})
	if err != nil || !d.Approved {
		t.Fatalf("hold %s: %+v, %v", id, d, err)
	}
}

// used returns the used amount of the first rule in account a.
func used(t *testing.T, b *spend.Budgets) int64 {
	t.Helper()
	list, err := b.Remaining(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Used.Minor
}

// wait returns the wait of n cents.
func wait(t *testing.T, b *spend.Budgets, n int64) time.Duration {
	t.Helper()
	d, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(n)})
	if err != nil || d.Approved {
		t.Fatalf("%d cents: %+v, %v; want a decline", n, d, err)
	}
	return d.RetryAfter
}

// TestPeriodBoundaries: a period has the spends from its first microsecond on, whichever budget
// decided them, and none of the microsecond before.
func TestPeriodBoundaries(t *testing.T) {
	daily := spend.Calendar("day", cents(1000), spend.Day, time.UTC)
	single := spend.PerTransaction("single", cents(1000))
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name         string
		before, from func(older, newer *spend.Budgets) *spend.Budgets // for the spends before midnight, and at midnight
	}{
		{"all by budgets with the rule", second, second},
		{"all by budgets without the rule", first, first},
		{"by budgets that lack the rule from midnight on", second, first},
		{"by budgets that have the rule from midnight on", first, second},
	} {
		l := newTestLedger(t)
		older, newer := budgets(t, l, single), budgets(t, l, daily, single)
		charge(t, c.before(older, newer), "noon", 1)
		l.now = midnight.Add(-time.Microsecond)
		charge(t, c.before(older, newer), "last", 10)
		l.now = midnight
		charge(t, c.from(older, newer), "first", 100)
		l.now = midnight.Add(11 * time.Hour)
		for _, when := range []string{"at first", "after a decision"} {
			if got := used(t, newer); got != 100 {
				t.Errorf("%s, %s: %d cents are used on the second day, want 100", c.name, when, got)
			}
			if _, err := newer.Record(t.Context(), spend.Request{ID: "else", Account: "a", Amount: cents(1)}); err != nil {
				t.Fatal(err)
			}
			d, err := newer.Refund(t.Context(), spend.RefundRequest{ID: "back", SpendID: "else", Amount: cents(1)})
			if err != nil || !d.Approved {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
}

func first(older, _ *spend.Budgets) *spend.Budgets  { return older }
func second(_, newer *spend.Budgets) *spend.Budgets { return newer }

// TestMissedPeriod: a rule that was away for the turn of a period counts the new period alone.
func TestMissedPeriod(t *testing.T) {
	l := newTestLedger(t)
	single := spend.PerTransaction("single", cents(1000))
	older, newer := budgets(t, l, single), budgets(t, l, spend.Calendar("day", cents(1000), spend.Day, time.UTC), single)
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	charge(t, newer, "noon", 1)
	l.now = midnight.Add(-time.Microsecond)
	charge(t, older, "last", 10)
	l.now = midnight
	charge(t, older, "first", 100)
	for _, after := range []time.Duration{0, time.Hour} {
		l.now = midnight.Add(after)
		if got := used(t, newer); got != 100 {
			t.Errorf("%v after midnight %d cents are used, want 100", after, got)
		}
	}
	l.now = midnight.Add(10 * time.Hour)
	charge(t, older, "later", 1000)
	if got := used(t, newer); got != 1100 {
		t.Errorf("%d cents are used on the second day, want 1100", got)
	}
}

// TestNewRules: a rule that is new to an account counts the entries that it would have counted.
func TestNewRules(t *testing.T) {
	other := spend.PerTransaction("single", cents(1000))
	for _, c := range []struct {
		name string
		rule spend.Rule
		old  []spend.Rule // of the budgets that decide first
		at   time.Time
		want int64
	}{
		{
			"a lifetime before 1970", spend.Lifetime("ever", cents(1000)),
			[]spend.Rule{other},
			time.Date(1969, 7, 20, 20, 17, 0, 0, time.UTC), 10,
		},
		{
			"a wider window of the same name", spend.Rolling("window", cents(1000), 3*day),
			[]spend.Rule{spend.Rolling("window", cents(1000), day)},
			time.Time{},
			10,
		},
	} {
		l := newTestLedger(t)
		if !c.at.IsZero() {
			l.now = c.at
		}
		older := budgets(t, l, c.old...)
		charge(t, older, "only", 10)
		newer := budgets(t, l, c.rule)
		if got := used(t, newer); got != c.want {
			t.Errorf("%s: %d cents are used, want %d", c.name, got, c.want)
		}
		l.now = l.now.Add(2 * day)
		if _, err := older.Refund(t.Context(), spend.RefundRequest{ID: "one", SpendID: "only", Amount: cents(1)}); err != nil {
			t.Fatal(err)
		}
		if got := used(t, newer); got != c.want-1 {
			t.Errorf("%s: %d cents are used after two days and a refund, want %d", c.name, got, c.want-1)
		}
	}
	// A failure to read the entries is not lost.
	l := newTestLedger(t)
	charge(t, budgets(t, l, other), "only", 10)
	broken := errors.New("broken")
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
		reads := 0
		return &snapshot{Snapshot: snap, read: func() error {
			if reads++; reads == 2 {
				return broken
			}
			return nil
		}}
	}
	if _, err := budgets(t, l, spend.Lifetime("ever", cents(1))).Remaining(t.Context(), "a"); !errors.Is(err, broken) {
		t.Errorf("a new rule over a ledger that cannot read entries: %v; want its error", err)
	}
}

// TestForgottenRules: an account keeps the figures of each rule once, and those of a rule that no
// budget has used for 90 days no longer.
func TestForgottenRules(t *testing.T) {
	l := newTestLedger(t)
	w := &watcher{Ledger: l}
	older, newer := everyRule(t, w)
	rules := func(b *spend.Budgets, id string) []byte {
		charge(t, b, id, 1)
		return w.changes.Accounts[0].Rules
	}
	count := func(rules []byte, want int, when string) {
		t.Helper()
		if n := bytes.Count(rules, []byte("window")); n != want {
			t.Errorf("the account has %d figures of a rule %s, want %d", n, when, want)
		}
	}
	rules(newer, "1")
	count(rules(newer, "2"), 1, "after two decisions")
	l.now = l.now.Add(90 * day)
	count(rules(older, "3"), 1, "after 90 days without the rule")
	l.now = l.now.Add(time.Microsecond)
	count(rules(older, "4"), 0, "after 90 days and a microsecond without the rule")
}

// TestHoldAtTheEdge: a hold that leaves the window as its expiry is noticed is gone once.
func TestHoldAtTheEdge(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(1000), 2*day))
	hold(t, b, "h", 100, day)
	l.now = l.now.Add(time.Hour)
	charge(t, b, "1", 50)
	l.now = l.now.Add(time.Hour)
	charge(t, b, "2", 850)
	l.now = l.now.Add(2*day - 2*time.Hour)
	if got := wait(t, b, 150); got != time.Hour {
		t.Errorf("150 cents have to wait for %v, want the hour until the first charge leaves", got)
	}
}

// TestWaitsForHolds: a wait counts a hold that gives back room for the rule, and no other.
func TestWaitsForHolds(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(100)))
	hold(t, b, "1", 50, time.Hour)
	hold(t, b, "2", 40, 2*time.Hour)
	l.now = l.now.Add(time.Hour)
	if got := wait(t, b, 100); got != time.Hour {
		t.Errorf("a hold that expires now: a wait of %v, want the hour until the other expires", got)
	}

	l = newTestLedger(t)
	b = budgets(t, l, spend.Calendar("day", cents(100), spend.Day, time.UTC))
	l.now = l.now.Add(12*time.Hour - time.Microsecond)
	hold(t, b, "1", 50, 3*time.Hour)
	l.now = l.now.Add(time.Microsecond)
	charge(t, b, "2", 60)
	if got := wait(t, b, 50); got != day {
		t.Errorf("a hold of the last microsecond of yesterday: a wait of %v, want a day", got)
	}

	l = newTestLedger(t)
	hold(t, budgets(t, l, spend.PerTransaction("single", cents(128))), "1", 50, time.Hour)
	b = budgets(t, l, spend.Leaky("leaky", cents(128), 1<<17*time.Second))
	charge(t, b, "2", 100)
	if got := wait(t, b, 50); got != 22*1024*time.Second {
		t.Errorf("a hold from before a Leaky rule: a wait of %v, want the time in which 22 cents leak", got)
	}

	l = newTestLedger(t)
	b = budgets(t, l, spend.Count("often", 1, 2*day))
	hold(t, b, "1", 50, time.Hour)
	if d, err := b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "1", Amount: cents(5)}); err != nil || !d.Approved {
		t.Fatalf("an increase is no further spend: %+v, %v", d, err)
	}
	if got := wait(t, b, 1); got != time.Hour {
		t.Errorf("the only spend is a hold: a wait of %v, want the hour until it expires", got)
	}
	if d, err := b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "1", Amount: cents(1)}); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := wait(t, b, 1); got != 2*day {
		t.Errorf("the only spend is captured in part: a wait of %v, want the window", got)
	}

	l = newTestLedger(t)
	b = budgets(t, l, spend.Count("often", 2, 2*day))
	hold(t, b, "1", 50, time.Hour)
	if d, err := b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "1", Amount: cents(5)}); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	hold(t, b, "2", 50, 2*time.Hour)
	if got := wait(t, budgets(t, l, spend.Count("often", 1, 2*day)), 1); got != 2*time.Hour {
		t.Errorf("two holds where one spend is allowed: a wait of %v, want both hours", got)
	}
}

// TestDeclineInEveryAccount: each account of a request has an entry of its decline.
func TestDeclineInEveryAccount(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(10)))
	r := spend.Request{ID: "s", Account: "a", Amount: cents(11), Also: []spend.Account{{Budget: "cards", Name: "b"}}}
	if d, err := b.Charge(t.Context(), r); err != nil || d.Approved {
		t.Fatalf("%+v, %v; want a decline", d, err)
	}
	for _, account := range []string{"a", "b"} {
		n := 0
		for e, err := range b.History(t.Context(), account, nil) {
			if n++; err != nil || e.Kind != "decline" {
				t.Errorf("account %s: %+v, %v; want a decline", account, e, err)
			}
		}
		if n != 1 {
			t.Errorf("account %s has %d entries, want 1", account, n)
		}
	}
}

// TestHugeIncrease: an increase beyond the largest total is no decline.
func TestHugeIncrease(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(10)))
	hold(t, b, "h", 5, time.Hour)
	more := spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(math.MaxInt64)}
	if d, err := b.Increase(t.Context(), more); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("%+v, %v; want ErrAmount", d, err)
	}
}

// TestPruneKeepsIDs: an entry that no window needs stays for as long as its request's ID.
func TestPruneKeepsIDs(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Rolling("window", cents(100), day))
	charge(t, b, "s", 1)
	l.now = l.now.Add(3 * day)
	if _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.entries(t)); n != 1 {
		t.Errorf("%d entries are left after 3 days, want 1", n)
	}
}

// TestVerifyOneRule: where no other rule shows it, Verify finds the damage of a rule that needs
// all entries.
func TestVerifyOneRule(t *testing.T) {
	ever, leaky := spend.Lifetime("ever", cents(100)), spend.Leaky("leaky", cents(128), 1<<17*time.Second)
	change := func(e []ledger.Entry) []ledger.Entry { e[0].Used++; return e }
	for _, c := range []struct {
		name    string
		rule    spend.Rule
		amounts []int64 // of charges
		damage  func([]ledger.Entry) []ledger.Entry
		want    error
	}{
		{"no entries and no figures", ever, nil, nil, nil},
		{"entries as they were", ever, []int64{1, 101, 2}, nil, nil},
		{"another amount of the only entry", ever, []int64{1}, change, store.ErrCorrupt},
		{"another amount of the first entry", ever, []int64{1, 2}, change, store.ErrCorrupt},
		{"another amount in a bucket", leaky, []int64{1}, change, store.ErrCorrupt},
		{
			"no entries", ever,
			[]int64{1},
			func([]ledger.Entry) []ledger.Entry { return nil }, store.ErrCorrupt,
		},
		{
			"no decline between entries", ever,
			[]int64{1, 101, 2},
			func(e []ledger.Entry) []ledger.Entry { return append(e[:1], e[2:]...) }, store.ErrCorrupt,
		},
		{
			"no decline at the end", ever,
			[]int64{1, 101},
			func(e []ledger.Entry) []ledger.Entry { return e[:1] }, store.ErrCorrupt,
		},
		{
			"no entries of a bucket", leaky,
			[]int64{1},
			func([]ledger.Entry) []ledger.Entry { return nil }, store.ErrCorrupt,
		},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, c.rule)
		for i, n := range c.amounts {
			if _, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(n)}); err != nil {
				t.Fatal(err)
			}
		}
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot { return &snapshot{Snapshot: snap, since: c.damage} }
		if err := b.Verify(t.Context(), "a"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
}

// TestLeakWithoutLimit: where an account's own limit of a Leaky rule is zero, the bucket leaks as
// before.
func TestLeakWithoutLimit(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Leaky("leaky", cents(100), 100*time.Second))
	charge(t, b, "s", 50)
	none := spend.LimitsRequest{ID: "l", Account: "a", Limits: []spend.RuleLimit{{Rule: "leaky", Amount: cents(0)}}}
	if _, err := b.SetLimits(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{50, 40, 30} {
		if got := used(t, b); got != want {
			t.Errorf("%d cents are used, want %d", got, want)
		}
		l.now = l.now.Add(10 * time.Second)
	}
}

// TestLifetimeKeepsSums: Prune removes the entries that a Lifetime rule has counted, and keeps those
// that it has yet to count. The rule goes on from its sums, and Verify from those of the removed
// entries, if the process that has pruned knows the rule, and else from those that the rule had then.
func TestLifetimeKeepsSums(t *testing.T) {
	ever, window := spend.Lifetime("ever", cents(100)).CountsCredits(), spend.Rolling("window", cents(1000), day)
	for name, c := range map[string]struct {
		rule   spend.Rule
		pruned []spend.Rule
		then   []spend.Rule // the process with these charges before Prune
		left   int
		proves bool // that the charge of 7 cents is as it was
	}{
		"the rule is known":           {ever, []spend.Rule{ever}, nil, 2, true},
		"for each value":              {ever.Per("merchant"), []spend.Rule{ever.Per("merchant")}, nil, 2, true},
		"the rule is unknown":         {ever, []spend.Rule{window}, nil, 2, false},
		"an entry is to be counted":   {ever, []spend.Rule{window}, []spend.Rule{window}, 3, false},
		"a new rule has not counted":  {ever, []spend.Rule{ever, spend.Lifetime("new", cents(1))}, nil, 4, true},
		"a new rule has counted them": {ever, []spend.Rule{ever, spend.Lifetime("new", cents(100))}, []spend.Rule{ever, spend.Lifetime("new", cents(100))}, 3, true},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, c.rule)
		charge(t, b, "s", 60)
		if d, err := b.Credit(t.Context(), spend.Request{ID: "c", Account: "a", Amount: cents(20)}); err != nil || !d.Approved {
			t.Fatal(d, err)
		}
		l.now = l.now.Add(50 * day)
		hold(t, b, "h", 7, day)
		if d, err := b.Capture(t.Context(), spend.CaptureRequest{ID: "k", HoldID: "h", Amount: cents(7), Final: true}); err != nil || !d.Approved {
			t.Fatal(d, err)
		}
		l.now = l.now.Add(50 * day)
		want := int64(47)
		if c.then != nil {
			charge(t, budgets(t, l, c.then...), "between", 1)
			want++
		}
		if _, err := budgets(t, l, c.pruned...).Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := l.entries(t); len(left) != c.left {
			t.Errorf("%s: %d entries are left, want %d", name, len(left), c.left)
		}
		for range 2 {
			if got := used(t, b); got != want {
				t.Errorf("%s: %d cents are used, want %d", name, got, want)
			}
			if err := b.Verify(t.Context(), "a"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if d, err := b.Refund(t.Context(), spend.RefundRequest{ID: fmt.Sprint("r", want), SpendID: "h", Amount: cents(1)}); err != nil || !d.Approved {
				t.Fatal(d, err)
			}
			want--
		}
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
			return &snapshot{Snapshot: snap, since: func(list []ledger.Entry) []ledger.Entry {
				for i := range list {
					if list[i].RequestID == "k" {
						list[i].Used++
					}
				}
				return list
			}}
		}
		if err := b.Verify(t.Context(), "a"); errors.Is(err, store.ErrCorrupt) != c.proves {
			t.Errorf("%s: with another amount, %v", name, err)
		}
	}
}

// TestOneRuleInTwoScales: budgets that share a rule convert its amounts each for itself.
func TestOneRuleInTwoScales(t *testing.T) {
	rule := spend.Lifetime("ever", cents(100)).MatchingAtLeast(cents(5))
	plain := budgets(t, newTestLedger(t), rule)
	if _, err := spend.New(newTestLedger(t), spend.Budget{Name: "fine", Currency: "EUR:4", Rules: []spend.Rule{rule}}, nil); err != nil {
		t.Fatal(err)
	}
	charge(t, plain, "s", 10)
	if got := used(t, plain); got != 10 {
		t.Errorf("%d cents are used, want 10", got)
	}
}
