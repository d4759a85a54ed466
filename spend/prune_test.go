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

// left returns the kinds of the entries that an account still has, newest first.
func left(t *testing.T, b *spend.Budgets, account string) string {
	t.Helper()
	var kinds []string
	for _, e := range lines(t, b, account) {
		kinds = append(kinds, e.Kind)
	}
	return fmt.Sprint(kinds)
}

// TestPruneKeepsOpenHolds: Prune keeps the entries of money that is still held and all that follow
// them, and no others.
func TestPruneKeepsOpenHolds(t *testing.T) {
	const ttl = 100 * day
	capture := func(b *spend.Budgets, n int64) {
		d, err := b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(n)})
		if err != nil || !d.Approved {
			t.Fatal(d, err)
		}
	}
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
			d, err := b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(1)})
			if err != nil || !d.Approved {
				t.Fatal(d, err)
			}
			capture(b, 5)
		}, ttl - time.Microsecond, "[capture increase]"},
	} {
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
		if _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(t, b, "a"); got != c.want {
			t.Errorf("%s: the entries left are %s, want %s", c.name, got, c.want)
		}
		if err := b.Verify(t.Context(), "a"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPruneFails: if Prune cannot read the account or its holds, the account keeps all entries.
func TestPruneFails(t *testing.T) {
	broken := errors.New("broken")
	for fails := 1; ; fails++ {
		l := newTestLedger(t)
		b := budgets(t, l, spend.Rolling("window", cents(1000), day))
		hold(t, b, "h", 1, 200*day)
		l.now = l.now.Add(100 * day)
		reads := 0
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
			return &snapshot{Snapshot: snap, read: func() error {
				if reads++; reads == fails {
					return broken
				}
				return nil
			}}
		}
		_, err := b.Prune(t.Context())
		if got := left(t, b, "a"); got != "[authorize]" {
			t.Errorf("with a failure of read %d, the entries left are %s, want the authorization", fails, got)
		}
		if reads < fails {
			if err != nil || fails < 3 {
				t.Errorf("%v after %d reads; want at least two reads, and no error without a failure", err, reads)
			}
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("Prune with a failure of read %d: %v; want the error", fails, err)
		}
	}
}

// TestPruneBesideDamage: a damaged account changes nothing for the accounts after it. Their expired
// holds end and are counted, and the rules of other processes keep their entries.
func TestPruneBesideDamage(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(1000), day)
	b, other := budgets(t, l, window), budgets(t, l, window, spend.Rolling("long", cents(1000), 300*day))
	charge(t, b, "1", 1)
	r := spend.Request{ID: "2", Account: "b", Amount: cents(1)}
	if d, err := other.Authorize(t.Context(), r); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
		return &snapshot{Snapshot: snap, account: func(a ledger.Account) ledger.Account {
			if a.Key == "cards/a" {
				a.State = cut(a.State, -1)
			}
			return a
		}}
	}
	// The rule that only the other process has is known for 90 days.
	for _, c := range []struct {
		after   time.Duration
		expired int64
		want    string
	}{
		{90 * day, 1, "[expire authorize]"},
		{time.Microsecond, 0, "[expire]"},
	} {
		l.now = l.now.Add(c.after)
		done, err := b.Prune(t.Context())
		if !errors.Is(err, store.ErrCorrupt) || done.Expired != c.expired {
			t.Errorf("%+v, %v; want %d expired holds and ErrCorrupt", done, err, c.expired)
		}
		if got := left(t, b, "b"); got != c.want {
			t.Errorf("the entries left are %s, want %s", got, c.want)
		}
	}
}

// TestPruneForARule: Prune keeps the entries that a rule of another process needs as long as the
// rule is known, which is 90 days after its last decision.
func TestPruneForARule(t *testing.T) {
	l := newTestLedger(t)
	window := spend.Rolling("window", cents(1000), day)
	b, other := budgets(t, l, window), budgets(t, l, window, spend.Rolling("long", cents(1000), 300*day))
	charge(t, b, "old", 1)
	l.now = l.now.Add(20 * day)
	charge(t, other, "last", 1)
	l.now = l.now.Add(90 * day)
	for _, want := range []string{"[spend spend]", "[]"} {
		if _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(t, b, "a"); got != want {
			t.Errorf("the entries left are %s, want %s", got, want)
		}
		l.now = l.now.Add(time.Microsecond)
	}
}
