package brim

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// TestLines joins and leaves at random, against a list. The front is told once it is the front, a
// newcomer is told the units in front of it that the store does not have, and an empty line is
// forgotten.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := lines{most: 50}
	list := map[string][]*waiter{}
	asking := map[string]*waiter{}
	keys := []string{"a", "b"}
	for range 20_000 {
		key := keys[rng.IntN(len(keys))]
		in := list[key]
		switch do := rng.IntN(22); {
		case do < 11:
			w, units := l.join(key, 1)
			if (w == nil) != (len(in) == l.most) {
				t.Fatalf("a newcomer behind %d of %d: has a place: %v", len(in), l.most, w != nil)
			}
			if w != nil {
				want := len(in)
				if want > 0 && asking[key] == in[0] {
					want--
				}
				if units != float64(want) {
					t.Fatalf("a newcomer was told of %v units, want %d", units, want)
				}
				list[key] = append(in, w)
			}
		case len(in) == 0:
		case do < 20:
			at := rng.IntN(len(in))
			in[at].leave()
			list[key] = append(in[:at:at], in[at+1:]...)
		case do < 21:
			in[0].setAsking(true)
			asking[key] = in[0]
		default:
			in[0].setAsking(false)
			asking[key] = nil
		}
		for _, key := range keys {
			op := store.Op{Bucket: Bucket{Key: key}, Amount: 1}
			want := len(list[key])
			if units := l.find(key).unitsAhead(&op); units != float64(want) {
				t.Fatalf("%v units are ahead of a fill, want %d", units, want)
			}
			if open := l.open(key); open != (want > 0 && want < l.most) {
				t.Fatalf("a line of %d of %d is open: %v", want, l.most, open)
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
			}
		}
	}
	for _, in := range list {
		for _, w := range in {
			w.leave()
		}
	}
	l.byKey.Range(func(key, _ any) bool {
		t.Errorf("the line for %v is left although nobody waits", key)
		return true
	})
	if n := l.keys.Load(); n != 0 {
		t.Errorf("%d keys are counted although nobody waits", n)
	}
}

// TestLineTakesOneStep cuts a line on both sides of a caller and its neighbours. Whoever walked
// along the line would go astray there.
func TestLineTakesOneStep(t *testing.T) {
	const callers = 1000
	l := lines{most: callers + 1}
	places := make([]*waiter, callers)
	for i := range places {
		places[i], _ = l.join("k", 1)
	}
	cut := func(at int) { places[at].ahead, places[at].behind = nil, nil }
	cut(callers - 2) // the last but one
	w, units := l.join("k", 1)
	if units != callers || w.ahead != places[callers-1] {
		t.Errorf("a newcomer was told of %v units, want %d", units, callers)
	}
	w.leave()
	for at := range callers - 1 {
		if at < 499 || at > 501 {
			cut(at)
		}
	}
	places[500].leave()
	if places[499].behind != places[501] || places[501].ahead != places[499] {
		t.Error("the neighbours of a caller that left do not know each other")
	}
	if units := l.find("k").unitsAhead(&store.Op{Amount: 1}); units != callers-1 {
		t.Errorf("%v units wait, want %d", units, callers-1)
	}
}

// TestKeysAreApart holds the line of one key. The calls for other keys do not wait for it.
func TestKeysAreApart(t *testing.T) {
	l := New(&second{}, nil)
	if _, err := l.Wait(t.Context(), Limit{Capacity: 1, LeakRate: 1}.For("a"), 1); err != nil {
		t.Fatal(err)
	}
	w, _ := l.lines.join("a", 1)
	w.line.mu.Lock()
	b := Limit{Capacity: 1, LeakRate: 1}.For("b")
	if _, err := l.Wait(t.Context(), b, 1); err != nil {
		t.Error(err)
	}
	if _, err := l.TryFillup(t.Context(), b, 1); err != nil {
		t.Error(err)
	}
	w.line.mu.Unlock()
	w.leave()
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
			if in := l.lines.find(b.Key); in != nil {
				in.mu.Lock()
				if in.waiting > 0 && in.asking == 0 && s.has.Load() {
					n++
				}
				in.mu.Unlock()
			}
		}
		twice <- n
	}()
	for range seed.Attempts(10_000, 1_000_000) {
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
