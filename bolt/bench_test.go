package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

const benchKeys = 100_000

func benchKey(i int) string { return fmt.Sprintf("customer:%08d", i) }

// rival is the reference: a bbolt file with default options and one db.Update per decision, which
// reads a level and a time and writes them back.
type rival struct{ db *bbolt.DB }

var rivalBucket = []byte("buckets")

func openRival(tb testing.TB, keys int) *rival {
	db, err := bbolt.Open(filepath.Join(tb.TempDir(), "rival.db"), 0o600, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(rivalBucket)
		for i := 0; i < keys && err == nil; i++ {
			err = b.Put([]byte(benchKey(i)), make([]byte, recordSize))
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &rival{db}
}

func (r *rival) fill(key string) error {
	return r.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(rivalBucket)
		value := make([]byte, recordSize)
		copy(value, b.Get([]byte(key)))
		binary.LittleEndian.PutUint64(value, binary.LittleEndian.Uint64(value)+1)
		binary.LittleEndian.PutUint64(value[8:], uint64(time.Now().UnixMicro()))
		return b.Put([]byte(key), value)
	})
}

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

// load runs callers for d and returns decisions per second and the 99th percentile of their time.
func load(tb testing.TB, callers int, d time.Duration, do func(r *rand.Rand) error) (rate float64, p99 time.Duration) {
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	start := time.Now()
	for c := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), uint64(start.UnixNano())))
			for begun := time.Now(); begun.Sub(start) < d; {
				if err := do(r); err != nil {
					tb.Error(err)
					return
				}
				now := time.Now()
				took[c] = append(took[c], now.Sub(begun))
				begun = now
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	all := slices.Concat(took...)
	slices.Sort(all)
	return float64(len(all)) / elapsed.Seconds(), all[len(all)*99/100]
}

// BenchmarkAgainstUpdate measures in interleaved rounds. It reports the median ratio of decisions
// per second to one db.Update per decision on another file of the same disk:
//
//	go test -run '^$' -bench AgainstUpdate -benchtime 1x ./bolt
func BenchmarkAgainstUpdate(b *testing.B) {
	s, r := openPrefilled(b, benchKeys), openRival(b, benchKeys)
	ctx := context.Background()
	for _, hot := range []bool{false, true} {
		for _, callers := range []int{1, 16, 64, 256} {
			name := fmt.Sprintf("uniform/%d", callers)
			if hot {
				name = fmt.Sprintf("hot/%d", callers)
			}
			b.Run(name, func(b *testing.B) {
				key := func(r *rand.Rand) string {
					if hot {
						return "hot"
					}
					return benchKey(r.IntN(benchKeys))
				}
				const rounds, d = 5, 400 * time.Millisecond
				var ratios, rates, p99s, rivalRates, rivalP99s []float64
				for b.Loop() {
					for range rounds {
						rate, p99 := load(b, callers, d, func(r *rand.Rand) error {
							_, err := s.Fill(ctx, benchOp(key(r)))
							return err
						})
						rivalRate, rivalP99 := load(b, callers, d, func(rng *rand.Rand) error {
							return r.fill(key(rng))
						})
						ratios, rates = append(ratios, rate/rivalRate), append(rates, rate)
						rivalRates = append(rivalRates, rivalRate)
						p99s, rivalP99s = append(p99s, p99.Seconds()*1e3), append(rivalP99s, rivalP99.Seconds()*1e3)
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(ratios), "ratio")
				b.ReportMetric(median(rates), "decisions/s")
				b.ReportMetric(median(rivalRates), "reference/s")
				b.ReportMetric(median(p99s), "p99-ms")
				b.ReportMetric(median(rivalP99s), "reference-p99-ms")
			})
		}
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
