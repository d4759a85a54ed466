package spendtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Callers is how many goroutines decide at the same time in benchmarks.
const Callers = 64

// ThreeRules is the budget that benchmarks decide by: one rolling window, one calendar month, one ceiling.
func ThreeRules(window time.Duration) spend.Budget {
	return spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("rolling", money(1<<50), window),
		spend.Calendar("month", money(1<<50), spend.Month, time.UTC),
		spend.PerTransaction("single", money(1<<40)),
	}}
}

// Rate is how many times per second [Callers] together get through f within d.
func Rate(b *testing.B, d time.Duration, f func(r *rand.Rand) error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range Callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for time.Since(start) < d {
				if err := f(r); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// Median is the one in the middle.
func Median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// Authorizer returns what authorizes 1.00 on one of so many accounts.
func Authorizer(b *testing.B, l ledger.Ledger, window time.Duration, accounts int) func(r *rand.Rand) error {
	b.Helper()
	cards, err := spend.New(l, ThreeRules(window), nil)
	if err != nil {
		b.Fatal(err)
	}
	var ids atomic.Int64
	run := time.Now().UnixNano()
	return func(r *rand.Rand) error {
		d, err := cards.Authorize(context.Background(), spend.Request{
			ID: fmt.Sprintf("%x-%x", run, ids.Add(1)), Account: fmt.Sprint("account:", r.IntN(accounts)), Amount: money(100),
		})
		if err == nil && !d.Approved {
			err = fmt.Errorf("declined: %+v", d)
		}
		return err
	}
}

// Flat compares what an authorization costs with 10 entries in the window and with 10,000, over 100 accounts, while as many
// leave the window as come. open returns a new ledger that goes by a clock, and settle is called when it has been filled.
func Flat(b *testing.B, open func(clock func() time.Time) ledger.Ledger, settle func()) {
	const accounts = 100
	const second = int64(time.Second / time.Microsecond)
	type side struct {
		clock     *testClock
		authorize func(*rand.Rand) error
	}
	var sides []side
	for _, entries := range []int{10, 10_000} {
		clock := &testClock{}
		clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		l := open(clock.now)
		b.Cleanup(func() { _ = l.Close() })
		// One decision a second and account: the window holds as many as it has seconds.
		authorize := Authorizer(b, l, time.Duration(entries)*time.Second, accounts)
		var left atomic.Int64
		left.Store(int64(entries * accounts * 11 / 10))
		var wg sync.WaitGroup
		for range 4 * Callers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(rand.Uint64(), 1))
				for left.Add(-1) >= 0 {
					clock.us.Add(second / accounts)
					if err := authorize(r); err != nil {
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
		return Rate(b, 1500*time.Millisecond, func(r *rand.Rand) error {
			s.clock.us.Add(second / accounts)
			return s.authorize(r)
		})
	}
	for b.Loop() {
		var few, many, ratios []float64
		for range 5 {
			f, m := measure(sides[0]), measure(sides[1])
			few, many, ratios = append(few, f), append(many, m), append(ratios, f/m)
		}
		b.ReportMetric(Median(few), "with-10/s")
		b.ReportMetric(Median(many), "with-10000/s")
		b.ReportMetric(Median(ratios), "x-cost")
	}
}
