package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// TestIndex compares indexes of accounts, whose hashes are often the same, with the lists of these
// accounts.
func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		var accounts []*account
		for i := range n {
			// The first hash is the last place of every index: the search goes on at the first.
			h := ^uint64(0) - uint64(random.IntN(n))/3*shards
			accounts = append(accounts, newAccount(store.Bucket{Key: fmt.Sprint(i)}, h, instant{}))
		}
		x := newIndex(accounts)
		for _, a := range accounts {
			if got := x.find(a.hash, a.key); got != a {
				t.Fatalf("%d accounts: %q is %v, want %v", n, a.key, got, a)
			}
			if got := x.find(a.hash+1, a.key); got != nil {
				t.Fatalf("%d accounts: %q is found by another hash", n, a.key)
			}
			if got := x.find(a.hash, "another"); got != nil {
				t.Fatalf("%d accounts: an unknown key is %q", n, got.key)
			}
		}
		listed := x.from(random.Uint64())
		byKey := func(a, b *account) int { return strings.Compare(a.key, b.key) }
		slices.SortFunc(listed, byKey)
		slices.SortFunc(accounts, byKey)
		if !slices.Equal(listed, accounts) {
			t.Fatalf("%d accounts: %d are listed", n, len(listed))
		}
	}
	var none *index
	if none.find(1, "key") != nil || none.from(1) != nil {
		t.Error("an index of no accounts has one")
	}
}
