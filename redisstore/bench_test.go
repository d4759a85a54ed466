package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

var cpuLines = regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`)

// serverCPU returns the CPU time that the server has used.
func serverCPU(b *testing.B, c *redis.Client) time.Duration {
	b.Helper()
	info, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for _, m := range cpuLines.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}

// BenchmarkFill measures TryFillups by some callers, over many keys or one, and the server's CPU
// time for each.
func BenchmarkFill(b *testing.B) {
	client := redistest.Client(b)
	limit := store.Limit{Capacity: 1e12, LeakRate: 1}
	for _, keys := range []int{100_000, 1} {
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("keys=%d/callers=%d", keys, callers), func(b *testing.B) {
				s := open(b, client, &Options{Prefix: redistest.Prefix(b, client)})
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprintf("user:%09d", i)
				}
				var next atomic.Int64
				before := serverCPU(b, client)
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for {
							i := next.Add(1)
							if i > int64(b.N) {
								return
							}
							op := store.Op{Bucket: limit.For(names[int(i*7919)%keys]), Amount: 1}
							if _, err := s.Fill(context.Background(), op); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64((serverCPU(b, client)-before).Nanoseconds())/float64(b.N), "server-cpu-ns/op")
			})
		}
	}
}

// BenchmarkScript measures how long one script of a full batch holds the server.
func BenchmarkScript(b *testing.B) {
	client := redistest.Client(b)
	limit := store.Limit{Capacity: 1e12, LeakRate: 1}
	for _, size := range []int{1, 16, 64, DefaultBatchSize, 512} {
		b.Run(fmt.Sprint("buckets=", size), func(b *testing.B) {
			s := open(b, client, &Options{Prefix: redistest.Prefix(b, client), BatchSize: 1000})
			var reqs []*fillRequest
			for i := range size {
				reqs = append(reqs, &fillRequest{In: request{one: [1]store.Op{{Bucket: limit.For(fmt.Sprint("user:", i)), Amount: 1}}}})
			}
			batch := newBatch(s.name)
			run := func() {
				batch.take(reqs, size)
				c := s.call(batch, slotScript)
				s.run(client, []*call{c}, false, time.Now().Add(time.Minute))
				if c.err != nil {
					b.Fatal(c.err)
				}
			}
			run()
			before := serverCPU(b, client)
			for b.Loop() {
				run()
			}
			per := float64((serverCPU(b, client) - before).Nanoseconds()) / float64(b.N)
			b.ReportMetric(per, "server-cpu-ns/script")
			b.ReportMetric(per/float64(size), "server-cpu-ns/bucket")
		})
	}
}
