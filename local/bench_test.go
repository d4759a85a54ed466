package local_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// BenchmarkRefusedAgain measures a call that is refused from memory, on one bucket and on 100,000
// buckets. The flag -cpu sets the number of goroutines. The module in bench compares the result
// with other libraries.
func BenchmarkRefusedAgain(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := refusals(b, inMemory(b, nil), &local.RefusalsOptions{Remember: time.Hour, MaxBuckets: n})
			limit := store.Limit{Capacity: 100, LeakRate: 1e-6}
			ops := make([]store.Op, n)
			for i := range ops {
				ops[i] = store.Op{Bucket: limit.For(fmt.Sprint("tenant:", i)), Amount: 1}
				full := ops[i]
				full.Amount = 99
				do(b, s, full)
				do(b, s, ops[i])
			}
			ctx := b.Context()
			var seed, asked atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(seed.Add(1), 6))
				for pb.Next() {
					st, err := s.Fill(ctx, ops[r.IntN(n)])
					if err != nil || st.Accepted {
						b.Error(st, err)
						return
					}
					if !st.Estimate {
						asked.Add(1)
					}
				}
			})
			b.ReportMetric(float64(asked.Load())/float64(b.N), "asked/op")
		})
	}
}

// BenchmarkServe measures calls on one bucket that are served from allotments. The flag -cpu sets
// the number of goroutines.
func BenchmarkServe(b *testing.B) {
	inner := &watched{Store: inMemory(b, nil)}
	s := leases(b, inner, nil)
	bucket := store.Limit{Capacity: 1 << 50, LeakRate: 1e7}.For("hot")
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if st, err := s.Fill(ctx, store.Op{Bucket: bucket, Amount: 1}); err != nil || !st.Accepted {
				b.Error(st, err)
				return
			}
		}
	})
	b.ReportMetric(float64(inner.fills.Load())/float64(b.N), "asked/op")
}
