package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// BenchmarkHeldRows has 64 callers fill 20,000 buckets, half of the time beside a stranger who
// holds some of the rows in transactions of 80 ms, one after the other. It reports the rate of each
// half, and the part of the undisturbed rate that the callers keep.
func BenchmarkHeldRows(b *testing.B) {
	const buckets, callers, half = 20_000, 64, 500 * time.Millisecond
	for _, held := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			admin := pgtest.Pool(b)
			schema := migrated(b)
			s := over(b, pgtest.PoolAt(b, pgtest.With(b, "pool_max_conns=8")), postgres.Options{Schema: schema})
			execute(b, admin, fmt.Sprintf(`INSERT INTO %s (key, level, atime, held, capacity, leak_rate)
				SELECT 'k' || n, 0, now(), 0, 1e12, 0 FROM generate_series(0, %d) AS n`, table(b, schema), buckets-1))
			execute(b, admin, "ANALYZE "+table(b, schema))
			var calls atomic.Int64
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			for range callers {
				wg.Go(func() {
					for ctx.Err() == nil {
						if _, err := s.Fill(context.Background(), op(steady.For(fmt.Sprint("k", rand.IntN(buckets))), 1, store.IfFits)); err != nil {
							b.Error(err)
							return
						}
						calls.Add(1)
					}
				})
			}
			rate := func() float64 {
				before, start := calls.Load(), time.Now()
				time.Sleep(half)
				return float64(calls.Load()-before) / time.Since(start).Seconds()
			}
			rate() // the first plans
			var calm, disturbed float64
			for b.Loop() {
				calm += rate()
				stop, end := context.WithCancel(ctx)
				var stranger sync.WaitGroup
				stranger.Go(func() {
					for stop.Err() == nil {
						tx, err := admin.Begin(b.Context())
						if err == nil {
							_, err = tx.Exec(b.Context(), "SELECT FROM "+table(b, schema)+
								" WHERE key = ANY (ARRAY(SELECT 'k' || n FROM generate_series(1, $1::int) AS n)) ORDER BY key FOR UPDATE", held)
						}
						if err != nil {
							b.Error(err)
							return
						}
						time.Sleep(80 * time.Millisecond)
						_ = tx.Rollback(context.Background())
					}
				})
				disturbed += rate()
				end()
				stranger.Wait()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(calm/float64(b.N), "calm/s")
			b.ReportMetric(disturbed/float64(b.N), "held/s")
			b.ReportMetric(disturbed/calm, "kept")
		})
	}
}
