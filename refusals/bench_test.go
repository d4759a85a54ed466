package refusals_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
)

// BenchmarkRefusedAgain measures a call that is refused from memory, on one bucket and on 100,000
// buckets. The flag -cpu sets the number of goroutines. The module in bench compares the result
// with other libraries.
func BenchmarkRefusedAgain(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s, err := refusals.New(inMemory(b, nil), &refusals.Options{Remember: time.Hour, MaxBuckets: n})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			limit := store.Limit{Capacity: 100, LeakRate: 1e-6}
			ops := make([]store.Op, n)
			for i := range ops {
				ops[i] = store.Op{Bucket: limit.For(fmt.Sprint("tenant:", i)), Amount: 1}
				full := ops[i]
				full.Amount = 100
				if _, err := s.Fill(b.Context(), full); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Fill(b.Context(), ops[i]); err != nil {
					b.Fatal(err)
				}
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
