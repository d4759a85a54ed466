package local

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

const backend = "local"

// maxWaits is the number of answers to requests of others that a caller waits for before it asks
// the store by itself.
const maxWaits = 3

// wrapper is the part that the wrappers share. Methods that a wrapper does not override are those
// of the wrapped store, which refuses them itself after Close or if the context has ended.
type wrapper struct {
	store.Store
	clock  func() time.Time // that replaces the system's clocks, or nil
	start  time.Time
	closed atomic.Bool
}

// open sets up the wrapper. It returns the error of the constructor with that name: err, which is
// that of an option, or one of the other arguments.
func (w *wrapper) open(name string, s store.Store, maxBuckets int, clock func() time.Time, err error) error {
	switch {
	case s == nil:
		err = fmt.Errorf("%w: the store to wrap is nil", store.ErrClosed)
	case maxBuckets < 0:
		err = fmt.Errorf("MaxBuckets is %d; it must be positive, or 0 for the default", maxBuckets)
	}
	w.Store, w.clock, w.start = s, clock, time.Now()
	return store.Wrap(backend, name, err)
}

// check returns the error of a call that must not be answered, because the wrapper is closed or ctx
// has ended.
func (w *wrapper) check(ctx context.Context, op string) error {
	if w.closed.Load() {
		return store.Wrap(backend, op, store.ErrClosed)
	}
	return store.Wrap(backend, op, ctx.Err())
}

// wait waits for another caller, or a request, to close done. It returns an error if the call must
// not go on.
func (w *wrapper) wait(ctx context.Context, op string, done <-chan struct{}) error {
	select {
	case <-done:
	case <-ctx.Done():
	}
	return w.check(ctx, op)
}

// Answered asks the wrapped store. See [store.Witness].
func (w *wrapper) Answered(ctx context.Context, op store.Op, st store.State) store.State {
	return store.Answered(ctx, w.Store, op, st)
}
