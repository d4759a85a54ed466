package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

// clock spreads a number of entries over the window that ends now.
type clock struct {
	entries int
	left    atomic.Int64
	us      atomic.Int64
	step    int64
}

func newClock(entries int) *clock {
	c := &clock{entries: entries, step: int64(window/time.Microsecond) * 9 / 10 / int64(entries)}
	c.us.Store(time.Now().UnixMicro() - int64(entries)*c.step)
	c.left.Store(int64(entries))
	return c
}

func (c *clock) time() time.Time { return time.UnixMicro(c.us.Load()) }

// most is the largest amount of an entry, in cents.
const most = 200

// fill charges random amounts to an account of the ledger, which reads the clock.
func (c *clock) fill(ctx context.Context, l ledger.Ledger, account string) error {
	cards, err := spend.New(l, spendload.Budget(window), nil)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for c.left.Add(-1) >= 0 && len(failed) == 0 {
				c.us.Add(c.step)
				r := spend.Request{ID: spendload.ID(), Account: account, Amount: cents(1 + rand.Int64N(most))}
				d, err := cards.Charge(ctx, r)
				if err == nil && !d.Approved {
					err = fmt.Errorf("declined: %+v", d)
				}
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	wg.Wait()
	select {
	case err = <-failed:
	default:
	}
	return err
}

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
