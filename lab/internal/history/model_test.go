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
func (memoryStore) Verify(context.Context) error                             { return nil }

// TestModel compares the model with a memory store over long histories.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		r := &Runner{}
		s := memory.New(&memory.Options{Clock: func() time.Time { return At(r.seconds) }})
		ops := Random(rand.New(rand.NewPCG(seed, 0)), Bolt, 300, 0)
		j := NewJudge(Request{Ops: ops})
		for i, op := range ops {
			var got Answer
			if op.Kind == Tick {
				r.seconds += op.Seconds
			} else {
				got = Call(t.Context(), memoryStore{s}, op)
			}
			if err := j.See(Note{Op: i, Answer: &got}); err != nil || got.Failure() != "" {
				t.Fatalf("seed %d: %v, %s", seed, err, got.Failure())
			}
		}
		states, err := s.Read(t.Context(), buckets()...)
		if err != nil {
			t.Fatal(err)
		}
		var content Content
		for k, st := range states {
			content.Buckets[k].Level, content.Buckets[k].Held = st.Level, st.Held
		}
		if !Holds(j.Possible(), r.seconds, content) {
			t.Errorf("seed %d: the store holds %v", seed, content)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRandom: a seed has one history, and histories hold calls of every kind.
func TestRandom(t *testing.T) {
	random := func() []Op { return Random(rand.New(rand.NewPCG(1, 0)), Ledger, 500, 20) }
	kinds := make(map[Kind]int)
	for i, op := range random() {
		kinds[op.Kind]++
		if again := random()[i]; again.String() != op.String() {
			t.Fatalf("call %d is %v, then %v", i, op, again)
		}
	}
	for _, k := range []Kind{Fill, Apply, Delete, Prune, Tick, Compact, Reopen, Sync, Together, Authorize, Capture, Refund} {
		if kinds[k] == 0 {
			t.Errorf("no call is a %s", k)
		}
	}
	if slices.Contains(buckets()[1:], buckets()[0]) {
		t.Error("two keys are one bucket")
	}
}
