package postgres_test

import (
	"context"
	"flag"
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

var vacuumTime = flag.Duration("vacuum", 4*time.Minute, "the time of each workload of BenchmarkAutovacuum")

// BenchmarkAutovacuum compares the settings of autovacuum that the migrations give the table with
// the defaults of the server. Two tables of one server, one with each, have the same callers at the
// same time. It reports calls a second, the pages of the table and the growth in the second half,
// the dead rows at the end, and the vacuums.
func BenchmarkAutovacuum(b *testing.B) {
	const buckets, callers = 200_000, 16
	for _, c := range []struct {
		name string
		key  func(n int64) string
		gone bool // the bucket leaks at once, and is pruned
	}{
		{"hot", func(int64) string { return "k0" }, false},
		{"uniform", func(int64) string { return fmt.Sprint("k", rand.IntN(buckets)) }, false},
		{"churn", func(n int64) string { return fmt.Sprint("new/", n) }, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := pgtest.NewServer(b)
			admin := server.Pool(b)
			ctx, cancel := context.WithTimeout(b.Context(), *vacuumTime)
			defer cancel()
			var wg sync.WaitGroup
			type side struct {
				schema string
				calls  atomic.Int64
				half   int64 // pages after the first half
			}
			pages := func(s *side) int64 {
				return scalar[int64](b, admin, fmt.Sprintf("SELECT pg_relation_size('%s') / 8192", table(b, s.schema)))
			}
			sides := []*side{{schema: "chosen"}, {schema: "server"}}
			for _, at := range sides {
				migrateTo(b, admin, at.schema)
				if at.schema == "server" {
					execute(b, admin, "ALTER TABLE "+table(b, at.schema)+
						" RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay)")
				}
				execute(b, admin, fmt.Sprintf(`INSERT INTO %s (key, level, atime, held, capacity, leak_rate)
					SELECT 'k' || n, 1, now(), 0, 1e12, 0 FROM generate_series(0, %d) AS n`, table(b, at.schema), buckets-1))
				execute(b, admin, "VACUUM ANALYZE "+table(b, at.schema))
			}
			b.ResetTimer()
			for _, at := range sides {
				s := over(b, server.Pool(b), postgres.Options{Schema: at.schema, PruneEvery: -1})
				limit := steady
				if c.gone {
					limit = store.Limit{Capacity: 10, LeakRate: 1e6}
					later := over(b, server.Pool(b), postgres.Options{Schema: at.schema, PruneEvery: -1, Clock: func() time.Time { return time.Now().Add(10 * time.Minute) }})
					wg.Go(func() {
						for ctx.Err() == nil {
							if _, err := later.Prune(context.Background()); err != nil {
								b.Error(err)
								return
							}
							time.Sleep(10 * time.Second)
						}
					})
				}
				for range callers {
					wg.Go(func() {
						for ctx.Err() == nil {
							if _, err := s.Fill(context.Background(), op(limit.For(c.key(at.calls.Add(1))), 1, store.IfFits)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
			}
			time.Sleep(*vacuumTime / 2)
			for _, at := range sides {
				at.half = pages(at)
			}
			wg.Wait()
			for _, at := range sides {
				b.ReportMetric(float64(at.calls.Load())/vacuumTime.Seconds(), at.schema+"-calls/s")
				b.ReportMetric(float64(pages(at)), at.schema+"-pages")
				b.ReportMetric(float64(pages(at)-at.half), at.schema+"-grown")
				of := " FROM pg_stat_user_tables WHERE schemaname = '" + at.schema + "' AND relname = 'buckets'"
				b.ReportMetric(float64(scalar[int64](b, admin, "SELECT n_dead_tup"+of)), at.schema+"-dead")
				b.ReportMetric(float64(scalar[int64](b, admin, "SELECT autovacuum_count"+of)), at.schema+"-vacuums")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
