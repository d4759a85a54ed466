package brim

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/store"
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

// second is a store that refuses each first Fill and accepts each second one.
type second struct {
	store.Store
	calls int
	has   atomic.Bool // the units of the caller
}

func (s *second) Fill(context.Context, store.Op) (store.State, error) {
	s.calls++
	if s.calls%2 == 1 {
		return store.State{Level: 1, Capacity: 1, LeakRate: 1, RetryAfter: 1}, nil
	}
	s.has.Store(true)
	return store.State{Level: 1, Capacity: 1, LeakRate: 1, Accepted: true}, nil
}

// TestUnitsCountOnce watches the line while callers get their units. From the store's answer to the
// end of its place in the line, a caller is asking: otherwise a newcomer would count its units in the
// level and in the line, and might think that its own wait is too long.
func TestUnitsCountOnce(t *testing.T) {
	s := &second{}
	l := New(s, nil)
	b := Limit{Capacity: 1, LeakRate: 1}.For("k")
	var end atomic.Bool
	twice := make(chan int)
	go func() {
		n := 0
		for !end.Load() {
			l.lines.mu.Lock()
			if in := l.lines.byKey[b.Key]; in != nil && !in.last.asking && s.has.Load() {
				n++
			}
			l.lines.mu.Unlock()
		}
		twice <- n
	}()
	for range 100_000 {
		if st, err := l.Wait(t.Context(), b, 1); err != nil || !st.Accepted {
			t.Fatalf("%+v, %v", st, err)
		}
		s.has.Store(false)
	}
	end.Store(true)
	if n := <-twice; n > 0 {
		t.Errorf("%d times, the units of a caller were in the store and in front of a newcomer", n)
	}
}
