package spend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestPruneKeepsOpenHolds: Prune keeps the entries of open holds and all that follow them, and no
// others.
func TestPruneKeepsOpenHolds(t *testing.T) {
	const ttl = 100 * day
	for _, c := range []struct {
		name  string
		hold  int64
		then  func(*testLedger, *spend.Budgets)
		after time.Duration
		want  string
	}{
		{"a hold of one cent", 1, nil, ttl - time.Microsecond, "[authorize]"},
		{"a hold that expires now", 1, nil, ttl, "[expire]"},
		{"a hold that has expired", 1, nil, ttl + day, "[expire]"},
		{"a hold whose first part is captured", 5, func(l *testLedger, b *spend.Budgets) {
			l.now = l.now.Add(time.Hour)
			increase(t, b, "h", 1)
			capture(t, b, spend.CaptureRequest{HoldID: "h", Amount: cents(5)})
		}, ttl - time.Microsecond, "[capture increase authorize]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLedger(t)
			b := budgets(t, l, spend.Rolling("window", cents(1000), day))
			start := l.now
			charge(t, b, "before", 1)
			l.now = l.now.Add(time.Microsecond)
			hold(t, b, "h", c.hold, ttl-time.Microsecond)
			if c.then != nil {
				c.then(l, b)
			}
			l.now = start.Add(c.after)
			prune(t, b)
			if got := left(t, b, "a"); got != c.want {
				t.Errorf("the entries left are %s, want %s", got, c.want)
			}
			sound(t, b)
		})
	}
}

// TestPruneBesideANewRule: a rule of another process that decides for the first time while Prune
// runs keeps the entries that it has counted.
func TestPruneBesideANewRule(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(1000), day)
	b, other := budgets(t, l, window), budgets(t, l, window, spend.Rolling("long", cents(1000), 200*day))
	charge(t, b, "old", 60)
	l.now = l.now.Add(100 * day)
	first := true
	l.viewed = func() {
		if first {
			first = false
			charge(t, other, "meanwhile", 1)
		}
	}
	if _, err := b.Prune(t.Context()); err != nil || first {
		t.Fatal(err, first)
	}
	if got := left(t, b, "a"); got != "[spend spend]" {
		t.Errorf("the entries left are %s, want both spends", got)
	}
	l.now = l.now.Add(150 * day)
	if list := remaining(t, other, "a"); list[1].Used.Minor != 1 {
		t.Errorf("%+v; want 1 used, because the other spend has left the window", list)
	}
	sound(t, other)
}

// joining is a ledger that decides two jobs in one transaction when the second one comes.
type joining struct {
	ledger.Ledger
	first *ledger.Job
}

func (l *joining) Decide(ctx context.Context, job *ledger.Job) error {
	first := l.first
	if l.first = job; first == nil {
		return nil
	}
	return l.Ledger.Decide(ctx, &ledger.Job{Accounts: job.Accounts, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		batch := book.NewBatch(l.Ledger.(book.Reader), snap.Now())
		err := errors.Join(batch.Run(first), batch.Run(job))
		return batch.Changes(), err
	}})
}

// TestPruneTogether: two calls of Prune decide in one transaction.
func TestPruneTogether(t *testing.T) {
	l := newTestLedger(t)
	ever := spend.Lifetime("ever", cents(1000))
	b := budgets(t, l, ever)
	for i := range 3 {
		charge(t, b, fmt.Sprint(i), 10)
		l.now = l.now.Add(10 * day)
	}
	l.now = l.now.Add(95 * day)
	both := &joining{Ledger: l.Ledger}
	for range 2 {
		prune(t, b.With(both))
	}
	if got := left(t, b, "a"); got != "[]" {
		t.Fatalf("the entries left are %s; want none", got)
	}
	r := spend.Request{ID: "r", Account: "a", Amount: cents(1), Dated: l.now.Add(-110 * day)}
	if _, err := b.Record(t.Context(), r); !errors.Is(err, spend.ErrRequest) {
		t.Errorf("a record of a date whose entries are gone: %v; want ErrRequest", err)
	}
}

// TestPruneBesideDamage: a damaged account changes nothing for the accounts after it. Their expired
// holds end and are counted.
func TestPruneBesideDamage(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(1000), day)
	b := budgets(t, l, window)
	charge(t, b, "1", 1)
	r := spend.Request{ID: "2", Account: "b", Amount: cents(1)}
	approve(t)(b.Authorize(t.Context(), r))
	r.ID, r.Account = "3", "c"
	approve(t)(b.Charge(t.Context(), r))
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
		return &snapshot{Snapshot: snap, account: func(a ledger.Account) ledger.Account {
			if a.Key == "cards/a" {
				a.State = cut(a.State, -1)
			}
			return a
		}}
	}
	for _, c := range []struct {
		after   time.Duration
		expired int64
		want    map[string]string // by account
	}{
		{90 * day, 1, map[string]string{"b": "[expire]", "c": "[]"}},
		{90 * day, 0, map[string]string{"b": "[]", "c": "[]"}},
	} {
		l.now = l.now.Add(c.after)
		done, err := b.Prune(t.Context())
		if !errors.Is(err, store.ErrCorrupt) || done.Expired != c.expired {
			t.Errorf("%+v, %v; want %d expired holds and ErrCorrupt", done, err, c.expired)
		}
		for account, want := range c.want {
			if got := left(t, b, account); got != want {
				t.Errorf("the entries left of account %s are %s, want %s", account, got, want)
			}
		}
	}
}

// TestPruneForARule: Prune keeps the entries that a rule of the newest revision counts, in any
// plan, until they have left its window, and those of KeepIDs alone once no plan has the rule.
func TestPruneForARule(t *testing.T) {
	window, long := spend.Rolling("window", cents(1000), day), spend.Rolling("long", cents(1000), 300*day)
	for name, c := range map[string]struct {
		rules, plan []spend.Rule
		after       time.Duration
		want        string
	}{
		"the last entry is in the window": {[]spend.Rule{window, long}, []spend.Rule{window}, 300*day - time.Microsecond, "[spend]"},
		"the last entry has left":         {[]spend.Rule{window, long}, []spend.Rule{window}, 300 * day, "[]"},
		"a rule of another plan":          {[]spend.Rule{window}, []spend.Rule{window, long}, 300*day - time.Microsecond, "[spend]"},
		"no plan has the rule":            {[]spend.Rule{window}, []spend.Rule{window}, 90*day - time.Microsecond, "[spend]"},
		"nothing needs it":                {[]spend.Rule{window}, []spend.Rule{window}, 90 * day, "[]"},
	} {
		l := newTestLedger(t)
		before := budgets(t, l, window, long)
		charge(t, before, "old", 1)
		l.now = l.now.Add(20 * day)
		charge(t, before, "last", 1)
		l.now = l.now.Add(c.after)
		b := revised(t, l, spend.Budget{Name: "cards", Currency: "EUR", Rules: c.rules, Plans: map[string][]spend.Rule{"p": c.plan}}, &spend.Options{KeepIDs: 90 * day})
		prune(t, b)
		if got := left(t, b, "a"); got != c.want {
			t.Errorf("%s: the entries left are %s, want %s", name, got, c.want)
		}
		sound(t, b)
	}
}

// deciding is a ledger that counts decisions.
type deciding struct {
	ledger.Ledger
	n int
}

func (l *deciding) Decide(ctx context.Context, job *ledger.Job) error {
	l.n++
	return l.Ledger.Decide(ctx, job)
}

// TestPruneVisitsDueAccounts: Prune decides on an account when a hold may have expired or an entry
// may have become needless. While others need its entries, it looks again after a part of KeepIDs.
func TestPruneVisitsDueAccounts(t *testing.T) {
	window := spend.Rolling("window", cents(1000), day)
	for name, c := range map[string]struct {
		rules   []spend.Rule // beside the window
		ttl     time.Duration
		visited []int // days from the beginning on which Prune decides, of the first 100
	}{
		"nothing else":                  {nil, 0, []int{90}},
		"a hold":                        {nil, 7 * day, []int{7, 90, 97}},
		"a hold that keeps the entries": {nil, 95 * day, []int{90, 95}},
		"a longer rule":                 {[]spend.Rule{spend.Rolling("long", cents(1000), 300*day)}, 0, []int{90}},
	} {
		l := newTestLedger(t)
		b := budgets(t, l, append([]spend.Rule{window}, c.rules...)...)
		charge(t, b, "s", 1)
		if c.ttl > 0 {
			hold(t, b, "h", 1, c.ttl)
		}
		counting, visited := &deciding{Ledger: l}, []int(nil)
		b = b.With(counting)
		for n := range 100 {
			before := counting.n
			prune(t, b)
			if counting.n > before {
				visited = append(visited, n)
			}
			l.now = l.now.Add(day)
		}
		if !slices.Equal(visited, c.visited) {
			t.Errorf("%s: Prune decides on the days %v; want %v", name, visited, c.visited)
		}
	}
}

// TestPruneOfManyValues: a Lifetime rule begins when most values have left. It keeps their sums,
// although they were too many at a time.
func TestPruneOfManyValues(t *testing.T) {
	l := newTestLedger(t)
	old := budgets(t, l, spend.PerTransaction("one", cents(10)))
	for i := range 1001 {
		r := spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(5), Tags: map[string]string{"shop": fmt.Sprint(i)}, TTL: time.Hour}
		approve(t)(old.Authorize(t.Context(), r))
	}
	l.now = l.now.Add(2 * time.Hour)
	b := budgets(t, l, spend.Lifetime("each", cents(10)).Per("shop"))
	charge(t, b, "s", 1)
	sound(t, b)
	l.now = l.now.Add(100 * day)
	if _, err := b.Prune(t.Context()); err != nil {
		t.Error(err)
	}
	sound(t, b)
}

// verifying is a ledger that verifies the account after each decision.
type verifying struct {
	*testLedger
	verify func(decision int)
	n      int
}

func (l *verifying) Decide(ctx context.Context, job *ledger.Job) error {
	err := l.testLedger.Decide(ctx, job)
	if l.n++; l.verify != nil {
		l.verify(l.n)
	}
	return err
}

// TestPruneManyOfOneTime: entries of one time go together, however many they are, and a Lifetime
// rule keeps the sum of all, after each of the decisions in which they go.
func TestPruneManyOfOneTime(t *testing.T) {
	for name, c := range map[string]struct {
		before, together, after int // entries
		most                    int // decisions
	}{
		"alone":              {0, 1030, 0, 1},
		"after others":       {1000, 1030, 0, 3},
		"before others":      {0, 3000, 10, 1},
		"longer than a part": {100, 3000, 1500, 5},
	} {
		l := &verifying{testLedger: newTestLedger(t)}
		n := int64(c.before + c.together + c.after)
		b := budgets(t, l, spend.Lifetime("ever", cents(2*n)))
		for i := range n {
			if i < int64(c.before) || i >= int64(c.before+c.together) {
				l.now = l.now.Add(time.Second)
			}
			charge(t, b, fmt.Sprint(i), 1)
		}
		l.now = l.now.Add(90 * day)
		l.n, l.verify = 0, func(decision int) {
			if err := b.Verify(t.Context(), "a"); err != nil {
				t.Errorf("%s, decision %d: %v", name, decision, err)
			}
		}
		prune(t, b)
		if got, left := used(t, b), l.entries(t); got != n || len(left) != 0 || l.n > c.most {
			t.Errorf("%s: %d cents are used and %d entries are left after %d decisions; want %d and none after %d at most",
				name, got, len(left), l.n, n, c.most)
		}
	}
}

// TestPruneOfAnIdleAccount: an account that nobody uses after its last hold has expired keeps no
// entry, whatever its rules and also if a rule is gone, and decides as it would without
// Prune. Otherwise it would keep the partition of these entries for ever.
func TestPruneOfAnIdleAccount(t *testing.T) {
	const years = 3 * 365 * day
	for name, rule := range map[string]spend.Rule{
		"window": spend.Rolling("window", cents(1000), day), "lifetime": spend.Lifetime("ever", cents(100)),
		"value": spend.Lifetime("each", cents(100)).Per("merchant"), "leaky": spend.Leaky("slow", cents(100), 20*years),
		"paid": spend.Calendar("paid", cents(100), spend.Year, time.UTC).CountsCredits(),
	} {
		for _, end := range []spend.Expiry{spend.ReleaseOnExpiry, spend.SpendOnExpiry} {
			idle, twin := newTestLedger(t), newTestLedger(t)
			for _, l := range []*testLedger{idle, twin} {
				b := budgets(t, l, rule, spend.Rolling("retired", cents(100), day))
				charge(t, b, "s", 60)
				credit(t, b, "c", 20)
				approve(t)(b.Authorize(t.Context(), spend.Request{
					ID: "h", Account: "a", Amount: cents(7), TTL: day, OnExpiry: end,
				}))
			}
			for range 3 {
				idle.now, twin.now = idle.now.Add(years/3), twin.now.Add(years/3)
				prune(t, budgets(t, idle, rule))
			}
			if left := idle.entries(t); len(left) > 0 {
				t.Errorf("%s, expiry %d: %d entries are left of an account that nobody uses", name, end, len(left))
			}
			for n := range 2 {
				b := budgets(t, idle, rule)
				sound(t, b)
				if got, want := used(t, b), used(t, budgets(t, twin, rule)); got != want {
					t.Errorf("%s, expiry %d: %d cents are used; want %d, as without Prune", name, end, got, want)
				}
				charge(t, b, fmt.Sprint(n), 1)
				charge(t, budgets(t, twin, rule), fmt.Sprint(n), 1)
			}
		}
	}
}
