package bolt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// BenchmarkSize reports the size of a file of up to a million buckets, filled in random order in
// commits of 256, and the time to verify, open, prune and compact it:
//
//	go test -run '^$' -bench Size -benchtime 1x ./bolt
func BenchmarkSize(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := openPrefilled(b, n)
			ctx := context.Background()
			perBucket := func() float64 {
				info, err := os.Stat(s.db.File().Path())
				if err != nil {
					b.Fatal(err)
				}
				return float64(info.Size()) / float64(n)
			}
			took := func(fn func() error) float64 {
				start := time.Now()
				if err := fn(); err != nil {
					b.Fatal(err)
				}
				return float64(time.Since(start).Microseconds()) / 1e3
			}
			reopen := func(o *Options) func() error {
				return func() (err error) {
					if err = s.Close(); err == nil {
						s, err = Open(s.db.File().Path(), o)
					}
					return err
				}
			}
			for b.Loop() {
				b.ReportMetric(perBucket(), "bytes/bucket")
				b.ReportMetric(took(func() error { return s.Verify(ctx) }), "verify-ms")
				b.ReportMetric(took(reopen(&Options{NoVerify: true})), "open-unverified-ms")
				b.ReportMetric(took(reopen(nil)), "open-ms")
				b.ReportMetric(took(func() error { _, err := s.Prune(ctx); return err }), "prune-nothing-ms")
				b.ReportMetric(took(func() error { _, _, err := s.Compact(ctx); return err }), "compact-ms")
				b.ReportMetric(perBucket(), "compacted-bytes/bucket")
			}
			b.ReportMetric(0, "ns/op")
			_ = s.Close()
		})
	}
}

func benchKey(i int) string { return fmt.Sprintf("customer:%08d", i) }

func openPrefilled(tb testing.TB, keys int) *Store {
	s, err := Open(filepath.Join(tb.TempDir(), "limits.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	prefill(tb, s, keys)
	return s
}

// prefill creates the buckets in random order in commits of 256, as many concurrent callers
// would.
func prefill(tb testing.TB, s *Store, keys int) {
	perm := rand.Perm(keys)
	db := database(s)
	db.NoSync = true
	for len(perm) > 0 {
		n := min(256, len(perm))
		txns := make([]store.Txn, n)
		for i, k := range perm[:n] {
			txns[i] = store.Txn{benchOp(benchKey(k))}
		}
		if _, err := s.Apply(context.Background(), txns...); err != nil {
			tb.Fatal(err)
		}
		perm = perm[n:]
	}
	db.NoSync = false
	if err := db.Sync(); err != nil {
		tb.Fatal(err)
	}
}

func benchOp(key string) store.Op {
	return store.Op{Bucket: store.Limit{Capacity: 1 << 50, LeakRate: 1000}.For(key), Amount: 1, Mode: store.IfFits}
}
