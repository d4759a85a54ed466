package bolt

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/kv"
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

// TestSizeCountsTheJournal: the size of a store is that of its file and of its journal.
func TestSizeCountsTheJournal(t *testing.T) {
	s := openTemp(t, &Options{logSegment: tiny})
	for fills := range 4 {
		if fills > 0 {
			fillup(t, s, "k", 1)
		}
		want := int64(len(bytesOf(t, s.db.File().Path())))
		if fills > 1 {
			want += int64(len(bytesOf(t, s.db.File().Path()+kv.LogSuffix)))
		}
		if size, err := s.Size(t.Context()); err != nil || size != want {
			t.Errorf("after %d fills: %d bytes, %v; want %d", fills, size, err, want)
		}
	}
}
