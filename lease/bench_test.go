package lease_test

import (
	"testing"

	"github.com/brimgo/brim/store"
)

// BenchmarkServe measures calls on one bucket that are served from allotments. The flag -cpu sets
// the number of goroutines.
func BenchmarkServe(b *testing.B) {
	inner := &watched{Store: inMemory(b, nil)}
	s := wrap(b, inner, nil)
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
