package spendload

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/spend/ledger"
)

// callers is the number of goroutines that decide at the same time in a
// benchmark.
const callers = 64

// rate calls f from 64 goroutines for d, with random accounts from 0 to
// accounts-1. It returns the calls per second of all goroutines together.
func rate(b *testing.B, d time.Duration, accounts int, f func(account int) error) float64 {
	b.Helper()
	order, err := load.Draw("uniform", accounts, 1, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	result, err := load.Run(context.Background(), load.Options{
		Callers: callers, For: d, Order: order,
		Decide: func(_ context.Context, account int, _ bool) (bool, error) { return true, f(account) },
	})
	if err != nil {
		b.Fatal(err)
	}
	return result.PerSecond()
}

// manualClock stands still until a goroutine moves it. Its unit is the
// microsecond.
type manualClock struct{ us atomic.Int64 }

func (c *manualClock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// Flat compares the cost of an authorization with 10 entries in the window to
// the cost with 10,000 entries, over 100 accounts. During the measurement one
// entry leaves a window for each entry that comes.
//
// open returns a new ledger that reads clock. Flat calls settle after it has
// filled both ledgers and before it measures.
func Flat(b *testing.B, open func(clock func() time.Time) ledger.Ledger, settle func()) {
	const accounts = 100
	const second = int64(time.Second / time.Microsecond)
	type side struct {
		clock     *manualClock
		authorize func(ctx context.Context, account int) error
	}
	var sides []side
	for _, entries := range []int{10, 10_000} {
		clock := &manualClock{}
		clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		l := open(clock.now)
		b.Cleanup(func() { _ = l.Close() })
		// Each account gets one decision a second, so the window holds as many
		// entries as it has seconds.
		authorize, err := Authorizer(l, time.Duration(entries)*time.Second, ID)
		if err != nil {
			b.Fatal(err)
		}
		var left atomic.Int64
		left.Store(int64(entries * accounts * 11 / 10))
		var wg sync.WaitGroup
		for range 4 * callers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					clock.us.Add(second / accounts)
					if err := authorize(context.Background(), rand.IntN(accounts)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		sides = append(sides, side{clock, authorize})
	}
	settle()
	measure := func(s side) float64 {
		return rate(b, 1500*time.Millisecond, accounts, func(account int) error {
			s.clock.us.Add(second / accounts)
			return s.authorize(context.Background(), account)
		})
	}
	for b.Loop() {
		var few, many []float64
		for range 5 {
			few, many = append(few, measure(sides[0])), append(many, measure(sides[1]))
		}
		cost, _ := load.Ratio(few, many)
		b.ReportMetric(load.Median(few), "with-10/s")
		b.ReportMetric(load.Median(many), "with-10000/s")
		b.ReportMetric(cost, "x-cost")
	}
}
