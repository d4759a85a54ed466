package history

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// memoryStore is a memory store with the methods of bolt's stores that it lacks.
type memoryStore struct{ store.Store }

func (memoryStore) Compact(context.Context) (before, after int64, err error) { return 0, 0, nil }

// TestModel compares the model with a memory store over long histories.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		r := &runner{}
		s, err := memory.New(&memory.Options{Clock: func() time.Time { return At(r.seconds) }})
		if err != nil {
			t.Fatal(err)
		}
		var m Model
		for i, op := range Random(rand.New(rand.NewPCG(seed, 0)), 300, 0) {
			var want, got Answer
			m, want = m.Next(op)
			if op.Kind == Tick {
				r.seconds += op.Seconds
			} else {
				got = r.call(memoryStore{s}, op)
			}
			if got.Err != "" || !got.Agrees(want) {
				t.Fatalf("seed %d, call %d (%v) answered %+v, want %+v", seed, i, op, got, want)
			}
		}
		states, err := s.Read(t.Context(), buckets()...)
		if err != nil {
			t.Fatal(err)
		}
		content := m.At(m.Seconds())
		for k, st := range states {
			if st.Level != content[k].Level || st.Held != content[k].Held {
				t.Errorf("seed %d, key %d: level %g held %g, want %v", seed, k, st.Level, st.Held, content[k])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRandom: a seed has one history, and histories hold calls of every kind.
func TestRandom(t *testing.T) {
	random := func() []Op { return Random(rand.New(rand.NewPCG(1, 0)), 500, 20) }
	kinds := make(map[Kind]int)
	for i, op := range random() {
		kinds[op.Kind]++
		if again := random()[i]; again.String() != op.String() {
			t.Fatalf("call %d is %v, then %v", i, op, again)
		}
	}
	for _, k := range []Kind{Fill, Apply, Delete, Prune, Tick, Compact, Reopen, Sync} {
		if kinds[k] == 0 {
			t.Errorf("no call is a %s", k)
		}
	}
	if slices.Contains(buckets()[1:], buckets()[0]) {
		t.Error("two keys are one bucket")
	}
}
