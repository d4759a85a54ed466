package local

import (
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// TestSet compares a set with a list of keys. Many hashes are the same, and keys are shorter and
// longer than those that stand in an entry itself.
func TestSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type id struct {
		hash uint64
		key  string
	}
	var s set[int]
	var kept [ways]*id
	for i := range 10_000 {
		w := random.IntN(ways)
		one := id{uint64(random.IntN(3)) << 56, strings.Repeat("k", maxShort-2+random.IntN(5))}
		if s.find(one.hash, one.key) != nil || random.IntN(4) == 0 {
			s.put(w, nil)
			kept[w] = nil
		} else {
			e := newEntry[int](one.hash, one.key)
			e.v = i
			s.put(w, e)
			kept[w] = &one
			if v := s.find(one.hash, one.key); v == nil || *v != i || s.wayOf(v) != w {
				t.Fatalf("%+v is not found at %d", one, w)
			}
		}
		for hash := range uint64(3) {
			for n := range 5 {
				one := id{hash << 56, strings.Repeat("k", maxShort-2+n)}
				want := false
				for _, k := range kept {
					want = want || k != nil && *k == one
				}
				if found := s.find(one.hash, one.key) != nil; found != want {
					t.Fatalf("step %d: %+v is found: %v, want %v", i, one, found, want)
				}
			}
		}
	}
}

// TestLayout checks that a lookup reads few cache lines.
func TestLayout(t *testing.T) {
	if bits.UintSize != 64 {
		t.Skip("the layout is made for pointers of 64 bits")
	}
	if n := unsafe.Sizeof(cacheSet{}); n != 128 {
		t.Errorf("a cacheSet has %d bytes, want two cache lines of 64", n)
	}
	if n := unsafe.Sizeof(entry[snapshot]{}); n != 192 {
		t.Errorf("an entry of a snapshot has %d bytes, want three cache lines of 64", n)
	}
	if n := unsafe.Offsetof(entry[snapshot]{}.v) + unsafe.Offsetof(snapshot{}.amount); n > 128 {
		t.Errorf("the fields that each refusal reads end at byte %d, want 128 at most", n)
	}
}
