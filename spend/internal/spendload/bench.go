package spendload

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

// callers is the number of goroutines that decide at the same time in a
// benchmark.
const callers = 64

// benchBudget is the budget of the benchmarks: a rolling window, a calendar
// month and a ceiling for one spend. No amount of a benchmark reaches a limit.
func benchBudget(window time.Duration) spend.Budget {
	return spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("rolling", euros(1<<50), window),
		spend.Calendar("month", euros(1<<50), spend.Month, time.UTC),
		spend.PerTransaction("single", euros(1<<40)),
	}}
}

// Rate runs f from 64 goroutines for d and returns the calls per second of all
// of them together.
func Rate(b *testing.B, d time.Duration, f func(r *rand.Rand) error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
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

// Median sorts list and returns its middle element.
func Median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// Authorizer returns a function that authorizes 1.00 EUR on a random one of
// the given number of accounts.
func Authorizer(b *testing.B, l ledger.Ledger, window time.Duration, accounts int) func(r *rand.Rand) error {
	b.Helper()
	cards, err := spend.New(l, benchBudget(window), nil)
	if err != nil {
		b.Fatal(err)
	}
	var ids atomic.Int64
	run := time.Now().UnixNano()
	return func(r *rand.Rand) error {
		d, err := cards.Authorize(context.Background(), spend.Request{
			ID:      fmt.Sprintf("%x-%x", run, ids.Add(1)),
			Account: fmt.Sprint("account:", r.IntN(accounts)),
			Amount:  euros(1_00),
		})
		if err == nil && !d.Approved {
			err = fmt.Errorf("declined: %+v", d)
		}
		return err
	}
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
		authorize func(*rand.Rand) error
	}
	var sides []side
	for _, entries := range []int{10, 10_000} {
		clock := &manualClock{}
		clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		l := open(clock.now)
		b.Cleanup(func() { _ = l.Close() })
		// Each account gets one decision a second, so the window holds as many
		// entries as it has seconds.
		authorize := Authorizer(b, l, time.Duration(entries)*time.Second, accounts)
		var left atomic.Int64
		left.Store(int64(entries * accounts * 11 / 10))
		var wg sync.WaitGroup
		for range 4 * callers {
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
