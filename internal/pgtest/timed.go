package pgtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// together is how many calls of [Timed] run at the same time. The server is asked to cancel all of
// them at the same moment, on a connection for each, and answers fewer in time on a busy machine.
const together = 12

// Timed makes calls that get no answer. Each must fail within twice the bound, with
// [store.ErrUnavailable], or with [store.ErrUnknownOutcome] if unknown says that it may. A call
// whose outcome a slow machine leaves unknown is made again, up to three times.
func Timed(t testing.TB, bound time.Duration, calls map[string]func(context.Context) error, unknown func(name string) bool) {
	t.Helper()
	var wg sync.WaitGroup
	places := make(chan struct{}, together)
	for name, call := range calls {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			took, err := timed(4*bound, call)
			for again := 3; again > 0 && errors.Is(err, store.ErrUnknownOutcome) && !unknown(name); again-- {
				took, err = timed(4*bound, call)
			}
			t.Logf("%-26s %5.2f s  %v", name, took.Seconds(), err)
			if took > 2*bound {
				t.Errorf("%s took %v, more than twice the bound of %v", name, took, bound)
			}
			if errors.Is(err, store.ErrUnknownOutcome) && !unknown(name) ||
				!errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: error is %v", name, err)
			}
		})
	}
	wg.Wait()
}

func timed(most time.Duration, call func(context.Context) error) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	began := time.Now()
	err = call(ctx)
	return time.Since(began), err
}
