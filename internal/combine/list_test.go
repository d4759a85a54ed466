package combine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList compares the queue with a slice.
func TestList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var l list[int, int]
	var want []*Request[int, int]
	for step := range 1000 {
		r := &Request[int, int]{In: step}
		switch n := random.IntN(6); {
		case n < 2:
			l.push(r)
			want = append(want, r)
		case n < 3:
			l.pushFront(r)
			want = slices.Insert(want, 0, r)
		case len(want) > 0:
			i := random.IntN(len(want))
			r = want[i]
			l.remove(r)
			want = slices.Delete(want, i, i+1)
			if r.next != nil || r.prev != nil {
				t.Fatalf("step %d: the removed request still has neighbours", step)
			}
		}
		var forward, backward []*Request[int, int]
		for r := l.first; r != nil && len(forward) <= len(want); r = r.next {
			forward = append(forward, r)
		}
		for r := l.last; r != nil && len(backward) <= len(want); r = r.prev {
			backward = append(backward, r)
		}
		slices.Reverse(backward)
		if !slices.Equal(forward, want) || !slices.Equal(backward, want) || l.length != len(want) {
			t.Fatalf("step %d: %d requests from the first, %d from the last, length %d; want %d",
				step, len(forward), len(backward), l.length, len(want))
		}
	}
}
