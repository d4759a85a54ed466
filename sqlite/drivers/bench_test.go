package drivers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/sqliteledger"
)

// Bench compares rates in turns, all with a sync before each answer: a store with an UPDATE of one
// row in a transaction of its own and with package bolt, and a ledger with boltledger.
func Bench(b *testing.B, d Driver) {
	for _, c := range []struct {
		name          string
		callers, keys int
	}{{"lone", 1, 100_000}, {"uniform", 64, 100_000}, {"hot", 64, 1}} {
		b.Run(c.name, func(b *testing.B) { benchStore(b, d, c.callers, c.keys) })
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("ledger, ", callers), func(b *testing.B) { benchLedger(b, d, callers) })
	}
}

// benchTurn is the length of a turn.
const benchTurn = time.Second

// turns has callers make calls of each kind in turns, and returns the calls a second of each.
func turns(b *testing.B, callers int, kinds ...func(ctx context.Context, n int) error) []float64 {
	b.Helper()
	rates := make([]float64, len(kinds))
	turn := func(call func(context.Context, int) error) float64 {
		var calls atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for caller := range callers {
			wg.Go(func() {
				for n := 0; time.Since(began) < benchTurn; n++ {
					if err := call(context.Background(), n*callers+caller); err != nil {
						b.Error(err)
						return
					}
					calls.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(calls.Load()) / time.Since(began).Seconds()
	}
	for _, call := range kinds {
		turn(call) // makes rows
	}
	for b.Loop() {
		for i, call := range kinds {
			rates[i] += turn(call)
		}
	}
	for i := range rates {
		rates[i] /= float64(b.N)
	}
	b.ReportMetric(0, "ns/op")
	return rates
}

func benchStore(b *testing.B, d Driver, callers, keys int) {
	h := harness{Driver: d, full: true}
	s := h.store(b, nil)
	db := h.database(b, filepath.Join(b.TempDir(), "bare.db"))
	db.SetMaxOpenConns(1) // the fastest way: callers wait in the queue of the pool
	_, err := db.Exec("CREATE TABLE bare (key INTEGER PRIMARY KEY, n REAL NOT NULL) STRICT")
	must(b, err)
	_, err = db.Exec("WITH RECURSIVE k (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM k WHERE n < ?) INSERT INTO bare SELECT n, 0 FROM k", keys)
	must(b, err)
	file, err := bolt.Open(filepath.Join(b.TempDir(), "b.db"), nil)
	must(b, err)
	limit := brim.Limit{Capacity: 1e15, LeakRate: 1}
	try := func(lim *brim.Limiter) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			st, err := lim.TryFillup(ctx, limit.For(fmt.Sprint(rand.IntN(keys))), 1)
			if err == nil && !st.Accepted {
				err = errors.New("refused")
			}
			return err
		}
	}
	rates := turns(b, callers, try(brim.New(s, nil)), func(ctx context.Context, _ int) error {
		_, err := db.ExecContext(ctx, "UPDATE bare SET n = n + 1 WHERE key = ?", rand.IntN(keys))
		return err
	}, try(brim.New(file, nil)))
	b.ReportMetric(rates[0], "sqlite/s")
	b.ReportMetric(rates[0]/rates[1], "of-bare-UPDATE")
	b.ReportMetric(rates[0]/rates[2], "of-bolt")
	must(b, errors.Join(s.Close(), file.Close()))
}

func benchLedger(b *testing.B, d Driver, callers int) {
	s := harness{Driver: d, full: true}.store(b, nil)
	l, err := sqliteledger.New(b.Context(), s.Store, nil)
	must(b, err)
	file, err := bolt.Open(filepath.Join(b.TempDir(), "b.db"), nil)
	must(b, err)
	inBolt, err := boltledger.New(file, nil)
	must(b, err)
	run := rand.Uint64()
	charge := func(l ledger.Ledger) func(context.Context, int) error {
		budgets, err := spend.New(b.Context(), l, spend.Budget{
			Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", spend.Money{Minor: 1 << 50, Currency: "EUR"}, 30*24*time.Hour)},
		}, nil)
		must(b, err)
		var ids atomic.Uint64
		return func(ctx context.Context, n int) error {
			_, err := budgets.Charge(ctx, spend.Request{
				ID: fmt.Sprint(run, "-", ids.Add(1)), Account: fmt.Sprint("card:", n%10_000), Amount: spend.Money{Minor: 100, Currency: "EUR"},
			})
			return err
		}
	}
	rates := turns(b, callers, charge(l), charge(inBolt))
	b.ReportMetric(rates[0], "sqlite/s")
	b.ReportMetric(rates[0]/rates[1], "of-boltledger")
	must(b, errors.Join(l.Close(), s.Close(), inBolt.Close(), file.Close()))
}
