package ui

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// calls are the calls in flight, and the failed ones of each second.
type calls struct {
	open [4096]atomic.Int64 // the beginnings of calls in nanoseconds; 0 is a free place

	mu     sync.Mutex
	failed [slots]struct{ second, n uint32 }
	last   failedCall
}

// failedCall is the last failed call.
type failedCall struct {
	at   time.Time // by this process's clock; zero if no call has failed
	text string
}

// own is the key of the context of a call that a page makes itself, which tells nothing of the
// calls of the program.
type own struct{}

// asOwn marks the calls of a page.
func asOwn(ctx context.Context) context.Context { return context.WithValue(ctx, own{}, true) }

func isOwn(ctx context.Context) bool { return ctx.Value(own{}) != nil }

// waits reports whether a method answers in one round trip or a few. A listing takes its time.
func waits(m observe.Method) bool { return m != observe.MethodVisit && m != observe.MethodPrune }

// started is the hook at the beginning of a call.
func (c *calls) started(ctx context.Context, call observe.Call) context.Context {
	if waits(call.Method) && !isOwn(ctx) {
		c.swap(call.Start, 0, call.Start.UnixNano())
	}
	return ctx
}

// ended is the hook at the end of a call. The failure of a caller who left, or asked for something
// that cannot be, is none of the store.
func (r *Recorder) ended(ctx context.Context, call observe.Call, o observe.Outcome) {
	if isOwn(ctx) {
		return
	}
	if waits(call.Method) {
		r.calls.swap(call.Start, call.Start.UnixNano(), 0)
	}
	if o.Err == nil {
		return
	}
	for _, own := range []error{
		context.Canceled, store.ErrNotHeld, store.ErrInvalidKey, store.ErrInvalidAmount, store.ErrInvalidLimit, errors.ErrUnsupported,
	} {
		if errors.Is(o.Err, own) {
			return
		}
	}
	second := r.now().Unix()
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	f := &r.calls.failed[uint64(second)%slots]
	if f.second != uint32(second) {
		f.second, f.n = uint32(second), 0
	}
	f.n++
	r.calls.last = failedCall{r.clock(), o.Err.Error()}
}

// swap changes a place of a call that began at that time from one value to another. If all places
// of the call are taken, others wait for longer than it.
func (c *calls) swap(start time.Time, from, to int64) {
	const places = 16
	first := uint64(start.UnixNano()) * 0x9e3779b97f4a7c15 >> 32
	for i := range uint64(places) {
		if c.open[(first+i)%uint64(len(c.open))].CompareAndSwap(from, to) {
			return
		}
	}
}

// oldest returns the beginning of the oldest call in flight, or 0.
func (c *calls) oldest() (start int64) {
	for i := range c.open {
		if n := c.open[i].Load(); n != 0 && (start == 0 || n < start) {
			start = n
		}
	}
	return start
}
