package memory_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// BenchmarkFill measures a decision over one key and over many keys, from as many goroutines as
// the flag -cpu sets. The module bench compares it with other libraries.
func BenchmarkFill(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := memory.New(nil)
			defer s.Close()
			ops := make([]store.Op, n)
			for i := range ops {
				ops[i] = fill(fmt.Sprint("tenant:", i), 1)
				if _, err := s.Fill(b.Context(), ops[i]); err != nil {
					b.Fatal(err)
				}
			}
			ctx := b.Context()
			var seed atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(seed.Add(1), 6))
				for pb.Next() {
					if _, err := s.Fill(ctx, ops[r.IntN(n)]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkBytesPerBucket reports the memory per bucket of a million buckets, without the bytes
// of the keys themselves. Short keys fit into the entry, long keys do not.
func BenchmarkBytesPerBucket(b *testing.B) {
	const buckets = 1_000_000
	for _, format := range []string{"k%013d", "user:%031d"} {
		b.Run(fmt.Sprintf("key=%d", len(fmt.Sprintf(format, 0))), func(b *testing.B) {
			for range b.N {
				s := memory.New(nil)
				before := heap()
				keyBytes := 0
				for i := range buckets {
					key := fmt.Sprintf(format, i)
					keyBytes += len(key)
					if _, err := s.Fill(b.Context(), fill(key, 1)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before-uint64(keyBytes))/buckets, "bytes/bucket")
				if n := count(b, s); n != buckets {
					b.Fatalf("%d buckets are left; want all %d", n, buckets)
				}
				s.Close()
			}
		})
	}
}

// heap returns the bytes of the heap in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
