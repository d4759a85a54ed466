package ui_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

// BenchmarkRecorder measures a decision in memory without and with a Recorder, from two goroutines
// at once. The difference of ns/op between the two is the cost of the Recorder.
func BenchmarkRecorder(b *testing.B) {
	for _, n := range []int{1, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys := manyKeys(n)
			inner := memory.New(nil)
			defer inner.Close()
			plain, err := observe.New(inner, observe.Hooks{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			r, err := ui.NewRecorder(nil)
			if err != nil {
				b.Fatal(err)
			}
			recorded, err := r.Wrap(inner)
			if err != nil {
				b.Fatal(err)
			}
			b.Run("without", func(b *testing.B) { fillFromTwo(b, plain, keys) })
			b.Run("recorded", func(b *testing.B) { fillFromTwo(b, recorded, keys) })
		})
	}
}

// manyKeys returns n different keys of 12 bytes in one string.
func manyKeys(n int) []string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "key:%08d", i)
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = all.String()[12*i : 12*(i+1)]
	}
	return keys
}

// fillFromTwo fills random buckets from two goroutines. b.N counts the fills of one of them.
func fillFromTwo(b *testing.B, s store.Store, keys []string) {
	ctx := b.Context()
	limit := store.Limit{Capacity: 1e12, LeakRate: 1e6}
	if _, err := s.Fill(ctx, store.Op{Bucket: limit.For(keys[0]), Amount: 1}); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(1)
	b.ReportAllocs()
	b.ResetTimer()
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(seed.Add(1), 6))
		for pb.Next() {
			if _, err := s.Fill(ctx, store.Op{Bucket: limit.For(keys[r.IntN(len(keys))]), Amount: 1}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
