package boltledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// fill stores an account for each of n numbers, with a request that began a spend with an open
// hold, and one without. Only the last account is due, at 1.
func fill(t *testing.T, l *Ledger, n int) {
	t.Helper()
	jobs := make([]*ledger.Job, n)
	for i := range jobs {
		key := fmt.Sprintf("cards/%05d", i)
		jobs[i] = &ledger.Job{Accounts: []string{key}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
			a := ledger.Account{Key: key, State: []byte("s")}
			if i == n-1 {
				a.Due = 1
			}
			requests := []ledger.Request{{ID: key + "/held", At: 1, Accounts: []string{key}}, {ID: key + "/old", At: 1, Accounts: []string{key}}}
			return &ledger.Changes{
				Accounts: []ledger.Account{a}, Requests: requests,
				Opened: []ledger.Hold{{Account: key, Expires: 1, SpendID: requests[0].ID}, {Account: key, Expires: 2, SpendID: requests[0].ID}},
			}, nil
		}}
	}
	for jobs := range slices.Chunk(jobs, 1000) {
		for _, err := range l.DecideAll(t.Context(), jobs) {
			must(t, err)
		}
	}
}

// TestParts: each transaction of PruneRequests and of Accounts looks at a bounded number of keys,
// and together they look at all.
func TestParts(t *testing.T) {
	const n = listPage + 600
	l := openLedger(t)
	fill(t, l, n)
	const many = prunePage + 100 // holds of one account
	must(t, l.Decide(t.Context(), &ledger.Job{Accounts: []string{"cards/00000"}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
		c := &ledger.Changes{Accounts: []ledger.Account{{Key: "cards/00000", State: []byte("s")}}}
		for i := range many {
			r := ledger.Request{ID: fmt.Sprint(i), At: 1, Accounts: []string{"cards/00000"}}
			c.Requests = append(c.Requests, r)
			c.Opened = append(c.Opened, ledger.Hold{Account: "cards/00000", Expires: 1, SpendID: r.ID})
		}
		return c, nil
	}}))
	must(t, l.db.Checkpoint(t.Context()))
	read := func(fn func(b *buckets) error) {
		t.Helper()
		must(t, l.read(t.Context(), "read", fn))
	}
	held := make(map[string]bool)
	from, parts := []byte{}, 0
	for ; from != nil; parts++ {
		before := len(held)
		read(func(b *buckets) (err error) { from, err = b.held(held, from); return err })
		if added := len(held) - before; added > prunePage {
			t.Errorf("a part has read %d holds", added)
		}
	}
	if want := 1 + (many+n*5)/prunePage; len(held) != n+many || parts < 2 || parts > want {
		t.Errorf("%d parts have found %d requests with holds; want %d in %d parts at most", parts, len(held), n+many, want)
	}
	listed, parts := 0, 0
	for after := []byte{}; after != nil; parts++ {
		read(func(b *buckets) (err error) {
			var ids [][]byte
			ids, after, err = b.old("cards/", 5, after, held)
			if listed += len(ids); len(ids) > pruneBatch {
				t.Errorf("a part has listed %d requests to forget", len(ids))
			}
			return err
		})
	}
	if listed != n || parts < 2 {
		t.Errorf("%d parts have listed %d requests to forget; want %d", parts, listed, n)
	}
	none, next, err := l.Accounts(t.Context(), "cards/", "", 1, 100)
	if err != nil || len(none) > 0 || next != fmt.Sprintf("cards/%05d", listPage-1) {
		t.Errorf("Accounts: %q, %q, %v; want none of the first %d", none, next, err, listPage)
	}
	last, next, err := l.Accounts(t.Context(), "cards/", next, 1, 100)
	if err != nil || len(last) != 1 || next != "" {
		t.Errorf("Accounts goes on with %q, %q, %v; want the last account", last, next, err)
	}
	if removed, err := l.PruneRequests(t.Context(), "cards/", 5); removed != n || err != nil {
		t.Errorf("PruneRequests: %d, %v; want %d", removed, err, n)
	}
	if removed, err := l.PruneRequests(t.Context(), "cards/", 5); removed != 0 || err != nil {
		t.Errorf("PruneRequests once more: %d, %v", removed, err)
	}
}
