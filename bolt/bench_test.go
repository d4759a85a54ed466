package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/load"
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

// measure lets callers fill keys for d. They draw the keys from a distribution of package load.
func measure(
	b *testing.B, distribution string, callers int, d time.Duration, fill func(ctx context.Context, key string) error,
) *load.Result {
	b.Helper()
	order, err := load.Draw(distribution, benchKeys, 1, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, benchKeys)
	for i := range keys {
		keys[i] = benchKey(i)
	}
	result, err := load.Run(b.Context(), load.Options{
		Callers: callers, For: d, Order: order,
		Decide: func(ctx context.Context, key int, _ bool) (bool, error) { return true, fill(ctx, keys[key]) },
	})
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// BenchmarkAgainstUpdate measures in interleaved rounds. It reports the median ratio of decisions
// per second to one db.Update per decision on another file of the same disk:
//
//	go test -run '^$' -bench AgainstUpdate -benchtime 1x ./bolt
func BenchmarkAgainstUpdate(b *testing.B) {
	s, r := openPrefilled(b, benchKeys), openRival(b, benchKeys)
	ours := func(ctx context.Context, key string) error {
		_, err := s.Fill(ctx, benchOp(key))
		return err
	}
	theirs := func(_ context.Context, key string) error { return r.fill(key) }
	for _, distribution := range []string{"uniform", "hot"} {
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", distribution, callers), func(b *testing.B) {
				const rounds, d = 5, 400 * time.Millisecond
				var rates, p99s [2][]float64 // of ours and theirs
				for b.Loop() {
					err := load.Interleave(rounds, 2, func(_, side int) error {
						fill := ours
						if side == 1 {
							fill = theirs
						}
						result := measure(b, distribution, callers, d, fill)
						rates[side] = append(rates[side], result.PerSecond())
						p99s[side] = append(p99s[side], result.Took.Quantile(0.99))
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				ratio, _ := load.Ratio(rates[0], rates[1])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(ratio, "ratio")
				b.ReportMetric(load.Median(rates[0]), "decisions/s")
				b.ReportMetric(load.Median(rates[1]), "reference/s")
				b.ReportMetric(load.Median(p99s[0]), "p99-ms")
				b.ReportMetric(load.Median(p99s[1]), "reference-p99-ms")
			})
		}
	}
}
