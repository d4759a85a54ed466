package memory_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/brimgo/brim/memory"
)

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
