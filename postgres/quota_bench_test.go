package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
)

// BenchmarkQuotas has callers fill buckets and quotas of the calendar in turns. It reports the
// rates, and the part of the rate of buckets that quotas reach.
func BenchmarkQuotas(b *testing.B) {
	const keys, turn = 1000, 250 * time.Millisecond
	limits := []brim.Limit{brim.Over(1e12, 24*time.Hour), brim.Per(1e12, brim.Month, time.UTC)}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			lim := brim.New(over(b, pgtest.PoolAt(b, pgtest.With(b, "pool_max_conns=8")), postgres.Options{Schema: migrated(b)}), nil)
			var calls [2]atomic.Int64
			var quota atomic.Int32
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(b.Context())
			for range callers {
				wg.Go(func() {
					for ctx.Err() == nil {
						i := quota.Load()
						key := fmt.Sprint(i, " ", rand.IntN(keys))
						if st, err := lim.TryFillup(context.Background(), limits[i].For(key), 1); err != nil || !st.Accepted {
							b.Errorf("%+v, %v", st, err)
							return
						}
						calls[i].Add(1)
					}
				})
			}
			run := func() {
				for i := range limits {
					quota.Store(int32(i))
					time.Sleep(turn)
				}
			}
			for range 4 {
				run() // makes the rows, and the first plans
			}
			before := [2]int64{calls[0].Load(), calls[1].Load()}
			for b.Loop() {
				run()
			}
			buckets, quotas := float64(calls[0].Load()-before[0]), float64(calls[1].Load()-before[1])
			cancel()
			wg.Wait()
			seconds := turn.Seconds() * float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(buckets/seconds, "buckets/s")
			b.ReportMetric(quotas/seconds, "quotas/s")
			b.ReportMetric(quotas/buckets, "ratio")
		})
	}
}
