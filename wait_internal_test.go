package brim

import (
	"math/rand/v2"
	"testing"
)

// TestLines joins and leaves at random, against a list. The front is told once it is the front, and
// an empty line is forgotten.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l lines
	list := map[string][]*waiter{}
	keys := []string{"a", "b"}
	for range 5_000 {
		key := keys[rng.IntN(len(keys))]
		if rng.IntN(20) < 10 {
			list[key] = append(list[key], l.join(key, 1))
		} else if in := list[key]; len(in) > 0 {
			at := rng.IntN(len(in))
			l.leave(in[at])
			list[key] = append(in[:at:at], in[at+1:]...)
		}
		for _, key := range keys {
			if l.empty(key) != (len(list[key]) == 0) {
				t.Fatalf("a line of %d is said to be empty: %v", len(list[key]), l.empty(key))
			}
			for i, w := range list[key] {
				select {
				case <-w.front:
					if i > 0 {
						t.Fatalf("place %d of the line was told that it is the first", i)
					}
				default:
					if i == 0 {
						t.Fatal("the first was not told")
					}
				}
				if units := l.retryAfter(w, &State{LeakRate: 1, Capacity: 1}).Seconds(); units != float64(i) {
					t.Fatalf("%v units are in front of place %d", units, i)
				}
			}
		}
	}
	for _, in := range list {
		for _, w := range in {
			l.leave(w)
		}
	}
	if l.byKey != nil {
		t.Errorf("%d lines are left although nobody waits", len(l.byKey))
	}
}
