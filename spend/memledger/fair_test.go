package memledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
)

// TestFairLock has callers come one after the other while a decision runs. They decide in that
// order, and one whose context ends meanwhile leaves the line.
func TestFairLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memledger.New(nil)
		proceed := make(chan struct{})
		var order []int
		errs := make([]error, 5)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range errs {
			own := t.Context()
			if i == 2 {
				own = ctx
			}
			go func() {
				errs[i] = l.Decide(own, &ledger.Job{Run: func(ledger.Snapshot) (*ledger.Changes, error) {
					<-proceed
					order = append(order, i)
					return nil, nil
				}})
			}()
			synctest.Wait() // the caller decides, or stands in the line
		}
		cancel()
		synctest.Wait()
		close(proceed)
		synctest.Wait()
		if want := []int{0, 1, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("the callers decided in the order %v, want %v", order, want)
		}
		for i, err := range errs {
			if left := i == 2; errors.Is(err, context.Canceled) != left || err != nil && !left {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
