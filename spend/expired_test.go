package spend_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// work counts the entries and holds that decisions read and write, the entries of the longest page,
// and the bytes of the account.
type work struct{ read, page, written, state int }

type working struct {
	ledger.Snapshot
	w *work
}

func (s working) Entries(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	list, through, err := s.Snapshot.Entries(account, after, upto, limit)
	s.w.read, s.w.page = s.w.read+len(list), max(s.w.page, len(list))
	return list, through, err
}

func (s working) Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	list, err := s.Snapshot.Since(account, after, limit)
	s.w.read += len(list)
	return list, err
}

func (s working) Holds(account string, after ledger.Hold, upto int64, limit int) ([]ledger.Held, int64, error) {
	list, next, err := s.Snapshot.Holds(account, after, upto, limit)
	s.w.read += len(list)
	return list, next, err
}

// measured is a ledger that counts the work of decisions.
type measured struct {
	*testLedger
	w work
}

func (m *measured) Decide(ctx context.Context, job *ledger.Job) error {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(working{snap, &m.w})
		if c != nil {
			m.w.written += len(c.Entries) + len(c.Opened) + len(c.Closed) + len(c.Requests)
			for i := range c.Accounts {
				m.w.state = len(c.Accounts[i].Rules) + len(c.Accounts[i].State)
			}
		}
		return c, err
	}
	return m.testLedger.Decide(ctx, &other)
}

// TestManyExpired sees that the work of a decision does not grow with the expired holds of its
// account. They are out of all figures at once. Each decision ends a few of them, and Prune ends
// the others.
func TestManyExpired(t *testing.T) {
	sizes := []int{100, 10_000}
	if os.Getenv("BRIM_TORTURE") == "1" {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		m := &measured{testLedger: newTestLedger(t)}
		limit := cents(int64(n))
		b := budgets(t, m,
			spend.Rolling("window", limit, 30*day), spend.Leaky("leaky", limit, 30*day), spend.Lifetime("ever", limit),
			spend.Calendar("year", limit, spend.Year, time.UTC), spend.Count("often", int64(n), 30*day),
			spend.Lifetime("each", limit).Per("merchant"),
		)
		state := 0
		for i := range n {
			d, err := b.Authorize(t.Context(), spend.Request{ID: fmt.Sprint(i), Account: "a", Amount: cents(1), TTL: day})
			if err != nil || !d.Approved {
				t.Fatal(i, d, err)
			}
			state = max(state, m.w.state)
			m.now = m.now.Add(day / 2 / time.Duration(n)) // no hold expires meanwhile
		}
		if state > 4096 {
			t.Errorf("%d holds: the account takes up to %d bytes; want 4096 at most", n, state)
		}
		m.now = m.now.Add(2 * day)
		decisions := 0
		decide := func(name string, read, written int, call func() (spend.Decision, error)) {
			t.Helper()
			m.w = work{}
			decisions++
			d, err := call()
			if err != nil || d.Approved != (name != "decline") || m.w.read > read || m.w.written > written {
				t.Errorf("%d expired holds, %s: %+v, %v; %d entries and holds read, and %d written; want %d and %d at most",
					n, name, d.Approved, err, m.w.read, m.w.written, read, written)
			}
			for _, u := range d.Remaining {
				if name == "charge" && u.Held.Minor != 0 || name == "all" && u.Rule != "often" && u.Remaining.Minor != 0 {
					t.Errorf("%d expired holds, %s: %+v", n, name, u)
				}
			}
		}
		decide("charge", 2, 2+2+2, func() (spend.Decision, error) {
			return b.Charge(t.Context(), spend.Request{ID: "one", Account: "a", Amount: cents(1)})
		})
		// 3 windows may be read, of which each page has 32 entries and the entries of this
		// decision.
		decide("decline", 2+3*32, 2+2+2, func() (spend.Decision, error) {
			return b.Charge(t.Context(), spend.Request{ID: "too much", Account: "a", Amount: limit})
		})
		decide("all", 2, 2+2+2, func() (spend.Decision, error) {
			return b.Charge(t.Context(), spend.Request{ID: "rest", Account: "a", Amount: cents(int64(n) - 1)})
		})
		if err := b.Verify(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		done, err := b.Prune(t.Context())
		if want := int64(n - 2*decisions); err != nil || done.Expired != want {
			t.Errorf("%d expired holds: Prune has ended %d, %v; want %d", n, done.Expired, err, want)
		}
		ends := 0
		for e, err := range b.History(t.Context(), "a", nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == "expire" {
				ends++
			}
		}
		if err := b.Verify(t.Context(), "a"); err != nil || ends != n {
			t.Errorf("%d expired holds: %d have ended, %v", n, ends, err)
		}
	}
}

// TestCrowdedAccount: the holds of an account with many ends last up to a sixteenth longer, and
// others exactly as long as asked.
func TestCrowdedAccount(t *testing.T) {
	l := newTestLedger(t)
	b := budgets(t, l, spend.Lifetime("ever", cents(1000)))
	ends := make(map[time.Time]bool)
	for i := range 500 {
		id := fmt.Sprint(i)
		hold(t, b, id, 1, day)
		found, err := b.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ends[found.Spend.ExpiresAt] = true
		if longer := found.Spend.ExpiresAt.Sub(l.now) - day; longer < 0 || longer > day/16 || longer != 0 && i < 32 {
			t.Errorf("hold %d lasts %v longer than a day", i, longer)
		}
		l.now = l.now.Add(time.Minute)
	}
	if len(ends) > 32+32 {
		t.Errorf("500 holds have %d ends", len(ends))
	}
	before, err := b.Get(t.Context(), "0")
	if err == nil {
		_, err = b.Extend(t.Context(), spend.ExtendRequest{ID: "extend", HoldID: "0", TTL: before.Spend.ExpiresAt.Sub(l.now) - time.Second})
	}
	after, getErr := b.Get(t.Context(), "0")
	if err != nil || getErr != nil || after.Spend.ExpiresAt != before.Spend.ExpiresAt {
		t.Errorf("%v, %v: a hold that lives longer already ends at %v, and no longer at %v", err, getErr, after.Spend.ExpiresAt, before.Spend.ExpiresAt)
	}
}
