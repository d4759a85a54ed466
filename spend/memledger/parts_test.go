package memledger

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

func decide(t *testing.T, l ledger.Ledger, c *ledger.Changes) {
	t.Helper()
	err := l.Decide(t.Context(), &ledger.Job{Run: func(ledger.Snapshot) (*ledger.Changes, error) { return c, nil }})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAccountsInParts: a call looks at a bounded number of accounts for those that are due, and
// together the calls look at all.
func TestAccountsInParts(t *testing.T) {
	l := New(nil)
	key := func(n int) string { return fmt.Sprintf("cards/%05d", n) }
	for i := range accountsPage + 100 {
		decide(t, l, &ledger.Changes{Accounts: []ledger.Account{{Key: key(i), Due: int64(i + 2)}}})
	}
	decide(t, l, &ledger.Changes{Accounts: []ledger.Account{{Key: key(accountsPage + 50), Due: 1}, {Key: "others/1", Due: 1}}})
	keys, next, err := l.Accounts(t.Context(), "cards/", "", 1, 10)
	if err != nil || len(keys) > 0 || next != key(accountsPage-1) {
		t.Errorf("%q, %q, %v; want none of the first %d", keys, next, err, accountsPage)
	}
	keys, next, err = l.Accounts(t.Context(), "cards/", next, 1, 10)
	if err != nil || len(keys) != 1 || keys[0] != key(accountsPage+50) || next != "" {
		t.Errorf("it goes on with %q, %q, %v; want the account that is due", keys, next, err)
	}
}

// TestPruneRequestsInParts: others have the lock between the parts of PruneRequests, and a hold
// that one of them opens keeps its request.
func TestPruneRequestsInParts(t *testing.T) {
	const n = 4 * requestsPage
	l := New(nil)
	c := &ledger.Changes{Accounts: []ledger.Account{{Key: "cards/a"}}}
	for i := range n {
		c.Requests = append(c.Requests, ledger.Request{ID: fmt.Sprint(i), At: 1, Accounts: []string{"cards/a"}})
	}
	c.Opened = []ledger.Hold{{Account: "cards/a", Expires: 1, SpendID: "7"}, {Account: "cards/a", Expires: 2, SpendID: "7"}}
	decide(t, l, c)
	decide(t, l, &ledger.Changes{Accounts: c.Accounts, Closed: c.Opened[:1]})
	// Of n requests a part removes at most requestsPage, so an end of the context after the first
	// part leaves the others.
	ctx, cancel := context.WithCancel(t.Context())
	removed, err := l.PruneRequests(&twice{Context: ctx, cancel: cancel}, "cards/", 5)
	if err == nil || removed == 0 || removed > requestsPage {
		t.Errorf("a part has removed %d requests, %v; want %d at most, and the end of the context", removed, err, requestsPage)
	}
	m := l.(*memory)
	removed, err = l.PruneRequests(t.Context(), "cards/", 5)
	if left := len(m.requests); err != nil || left != 1 || m.requests["7"] == nil {
		t.Errorf("%d removed, %v, and %d left; want the one with a hold", removed, err, left)
	}
	decide(t, l, &ledger.Changes{Accounts: c.Accounts, Closed: c.Opened[1:]})
	if removed, err := l.PruneRequests(t.Context(), "cards/", 5); removed != 1 || err != nil {
		t.Errorf("%d removed, %v; want the one whose hold is closed", removed, err)
	}
}

// twice is a context that ends when it has been asked for its error twice: before PruneRequests and
// before its first part.
type twice struct {
	context.Context
	asked  int
	cancel func()
}

func (c *twice) Err() error {
	if c.asked++; c.asked > 2 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestDropFreesEntries: dropped entries leave the memory, and corrections go with the entries,
// whatever their dates.
func TestDropFreesEntries(t *testing.T) {
	a := newAccount()
	const n = 1000
	for i := range int64(n) {
		e := ledger.Entry{Seq: i + 1, At: i + 1, Dated: i + 1, Part: i + 1}
		if i%3 == 2 {
			e.Dated, e.Part = i/2, i/2 // corrects an entry that goes long before it
			at := a.corrected(e.Place())
			a.corrections = append(a.corrections[:at:at], append([]ledger.Place{e.Place()}, a.corrections[at:]...)...)
		}
		a.entries = append(a.entries, e)
	}
	l := &memory{accounts: map[string]*account{"a": a}}
	for at := int64(0); at <= n; at += 50 {
		a.drop(at)
		want := 0
		for _, e := range a.entries {
			if e.At <= at {
				t.Fatalf("entry %d is left after a drop up to %d", e.Seq, at)
			}
			if e.Part != e.Seq {
				want++
			}
		}
		list, _, err := l.Entries("a", ledger.EndOf(math.MinInt64), math.MaxInt64, n)
		if err != nil || len(list) != n-int(at) || len(list) != len(a.entries) || len(a.corrections) != want {
			t.Fatalf("after a drop up to %d: %d entries by date, %d by number, %d corrections, %v; want %d, and %d",
				at, len(list), len(a.entries), len(a.corrections), err, n-at, want)
		}
		if a.dropped > 3*len(a.entries) {
			t.Errorf("%d entries hold the memory of %d", len(a.entries), a.dropped)
		}
	}
}
