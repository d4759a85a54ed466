package ui

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brimgo/brim/store"
)

// TestOrder sorts keys that share long beginnings, and compares both orders with those of package
// slices.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 8))
	for _, n := range []int{1, 2, 100, 499, 500, 5000} {
		l, seen := &listing{}, make(map[string]bool)
		var want []store.Entry
		for len(want) < n {
			key := make([]byte, 1+random.IntN(30))
			for i := range key {
				key[i] = "aab\xff"[random.IntN(4)] // chunks of equal bytes, and the highest byte
			}
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			e := store.Entry{Key: string(key), State: store.State{Level: float64(random.IntN(4)), Capacity: 3}}
			want = append(want, e)
			l.add(e, nil)
		}
		l.sort()
		slices.SortFunc(want, func(a, b store.Entry) int { return cmp.Compare(a.Key, b.Key) })
		for at, i := range l.byForm {
			if got := l.key(i); got != want[at].Key {
				t.Fatalf("%d keys: place %d by form has %q, want %q", n, at, got, want[at].Key)
			}
		}
		slices.SortStableFunc(want, func(a, b store.Entry) int { return cmp.Compare(b.Level, a.Level) })
		for at, i := range l.byShare {
			if got := l.key(i); got != want[at].Key {
				t.Fatalf("%d keys: place %d by share has %q, want %q", n, at, got, want[at].Key)
			}
		}
	}
}
