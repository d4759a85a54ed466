// Package queue is the leaky bucket as a queue inside one process. Items enter as they come, and
// a worker releases them one by one, in order, at the leak rate.
//
//	send := func(ctx context.Context, m Mail) { ... }
//	q, err := queue.New(brim.Smooth(5, 2*time.Second), send, nil)
//	...
//	err = q.Put(ctx, mail) // ErrFull: the item did not fit
//	...
//	err = q.Close(ctx) // releases the items that are left
//
// The queue lives in memory and belongs to one process. Use brim's Shaper for a queue that
// several processes share or that survives a restart. With a Shaper, each caller waits for its
// own turn; with a Queue, callers go on at once and the worker handles the items. Times are those
// of this process's monotonic clock.
package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

var (
	// ErrFull is the error of a Put whose item does not fit. The item is not in the queue.
	ErrFull = errors.New("queue: full")
	// ErrClosed is the error of a Put after Close or Abandon. The item is not in the queue.
	ErrClosed = errors.New("queue: closed")
)

// Options adjust a [Queue]. The zero value selects the defaults.
type Options[T any] struct {
	// Block makes Put wait for room. Waiting calls get room in the order in which they came.
	// Without Block, Put returns [ErrFull] at once.
	Block bool
	// Cost returns the size of an item in units of the limit; nil means that each item is one
	// unit. Put calls it once, on the caller's goroutine.
	Cost func(item T) float64
}

// Queue holds items until their turn. It is safe for concurrent use. It runs one goroutine with
// one timer. The goroutine ends after Close or Abandon, when the last release has returned.
type Queue[T any] struct {
	limit   store.Limit
	release func(context.Context, T)
	options Options[T]
	ctx     context.Context // of the releases; ends when the queue is abandoned
	stop    context.CancelFunc
	wake    chan struct{} // tells the worker that the queue has changed
	done    chan struct{} // closed when the worker has ended

	mu        sync.Mutex
	items     []item[T]
	level     float64      // the sum of the costs of items
	waiting   []*waiter[T] // Puts that wait for room, in order
	releasing bool         // release runs, or is about to run, on an item that has left items
	closed    bool
}

// item is one value in the queue.
type item[T any] struct {
	value   T
	cost    float64 // units
	arrived time.Time
}

// waiter is a Put that waits for room.
type waiter[T any] struct {
	item[T]
	done   chan struct{} // closed when the item is in the queue or the queue is closed
	closed bool          // the queue was closed before the item got room
}

// New returns a queue that holds up to limit.Capacity units and releases limit.LeakRate units per
// second. [brim.Smooth] returns such a limit for a rate and the longest delay of an item.
//
// The queue calls release for one item after the other, on a goroutine of its own. The context of
// release ends when the queue is abandoned. The first item is released at once. Each further item
// is released when it comes, but not before the predecessor's cost / LeakRate has passed since
// the predecessor's turn. A release that takes longer delays the items behind it. No burst makes
// up for the delay.
//
// o may be nil. New fails with [store.ErrInvalidLimit] if the limit is invalid or does not leak,
// and it fails if release is nil.
//
// [brim.Smooth]: https://pkg.go.dev/github.com/brimgo/brim#Smooth
func New[T any](limit store.Limit, release func(ctx context.Context, item T), o *Options[T]) (*Queue[T], error) {
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	if limit.LeakRate == 0 || limit.Capacity == 0 {
		return nil, fmt.Errorf("queue: %w: capacity %v and leak rate %v release no second item; use positive ones",
			store.ErrInvalidLimit, limit.Capacity, limit.LeakRate)
	}
	if release == nil {
		return nil, errors.New("queue: release is nil; pass the function that takes the items")
	}
	q := &Queue[T]{limit: limit, release: release, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if o != nil {
		q.options = *o
	}
	q.ctx, q.stop = context.WithCancel(context.Background())
	go q.work()
	return q, nil
}

// Put adds an item to the end of the queue. If the item does not fit, Put returns [ErrFull], or
// waits for room if [Options.Block] is set. If ctx ends first, Put returns the error of ctx.
// After [Queue.Close] or [Queue.Abandon], Put returns [ErrClosed]. An item whose cost is
// negative, is not a number or is above the capacity is refused with [store.ErrInvalidAmount].
//
// After any error, the item is not in the queue.
func (q *Queue[T]) Put(ctx context.Context, value T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	it := item[T]{value: value, cost: 1}
	if q.options.Cost != nil {
		it.cost = q.options.Cost(value)
	}
	if !(it.cost >= 0 && it.cost <= q.limit.Capacity) {
		return fmt.Errorf("queue: %w: an item costs %v units; a cost is a number from 0 to the capacity of %v",
			store.ErrInvalidAmount, it.cost, q.limit.Capacity)
	}
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case len(q.waiting) == 0 && q.fits(it.cost):
		q.push(it)
		q.mu.Unlock()
		return nil
	case !q.options.Block:
		q.mu.Unlock()
		return ErrFull
	}
	w := &waiter[T]{item: it, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		if q.withdraw(w) {
			return ctx.Err()
		}
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// Len returns the number of items in the queue. It counts neither the item that is being released
// nor the Puts that wait for room.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Close takes no more items, releases the items in the queue, each in its turn, and returns when
// the last release has returned. Puts that wait for room return [ErrClosed].
//
// If ctx ends first, Close abandons the items that are left, ends the context of the release in
// progress, and returns the error of ctx at once, even if the release goes on. [Queue.Abandon] then
// waits for that release and returns the items. Closing twice is allowed. A release must not close
// its own queue: Close and the release would wait for each other until ctx ends.
func (q *Queue[T]) Close(ctx context.Context) error {
	q.refuse()
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-q.done: // select takes any of two cases that are ready
		return nil
	default:
	}
	q.stop()
	q.mu.Lock()
	left, releasing := len(q.items), q.releasing
	q.mu.Unlock()
	if !releasing {
		<-q.done // at once, because no further release starts
		if left == 0 {
			return nil
		}
		return fmt.Errorf("queue: %d items abandoned: %w", left, ctx.Err())
	}
	return fmt.Errorf("queue: %d items abandoned, and a release is still in progress: %w", left, ctx.Err())
}

// Abandon takes no more items and starts no release. It waits until a release in progress has
// returned, and returns the items that were not released, in order. A second call returns none.
func (q *Queue[T]) Abandon() []T {
	q.refuse()
	q.stop()
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	left := make([]T, 0, len(q.items))
	for _, it := range q.items {
		left = append(left, it.value)
	}
	q.items, q.level = nil, 0
	return left
}

// refuse makes all further and waiting Puts fail.
func (q *Queue[T]) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, w := range q.waiting {
		w.closed = true
		close(w.done)
	}
	q.waiting = nil
	q.wakeWorker()
}

// fits reports whether the queue has room for cost. An empty queue has room for each item, even
// if rounding left a remainder in level. The queue is locked.
func (q *Queue[T]) fits(cost float64) bool {
	return len(q.items) == 0 || q.level+cost <= q.limit.Capacity
}

// push puts an item at the end. The queue is locked.
func (q *Queue[T]) push(it item[T]) {
	it.arrived = time.Now()
	q.items = append(q.items, it)
	q.level += it.cost
	q.wakeWorker()
}

func (q *Queue[T]) wakeWorker() {
	select {
	case q.wake <- struct{}{}:
	default: // the worker has not seen the last wake yet
	}
}

// withdraw removes a waiting Put. It reports whether the Put was still waiting. Smaller items
// behind it may now fit.
func (q *Queue[T]) withdraw(w *waiter[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.admit()
	return true
}

// admit puts the items of waiting Puts into the queue, in order, until one does not fit. The
// queue is locked.
func (q *Queue[T]) admit() {
	for len(q.waiting) > 0 && q.fits(q.waiting[0].cost) {
		w := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.push(w.item)
		close(w.done)
	}
}

// work releases one item after the other, until the queue is closed and empty, or abandoned.
func (q *Queue[T]) work() {
	defer close(q.done)
	defer q.stop()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var earliest time.Time    // the earliest time of the next turn
	var spacing time.Duration // from the last turn to earliest
	for {
		arrived, ok := q.next()
		if !ok {
			return
		}
		// A timer fires a little late. Turns count from their due time, so that the delays do not
		// add up. A turn that is late by more than one spacing counts from now. Otherwise a burst
		// would follow a slow release.
		turn := earliest
		if arrived.After(turn) {
			turn = arrived
		}
		now := time.Now()
		if now.Sub(turn) > spacing {
			turn = now
		}
		if wait := turn.Sub(now); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-q.ctx.Done():
				return
			}
		}
		it, ok := q.pop()
		if !ok {
			return
		}
		q.release(q.ctx, it.value)
		spacing = time.Duration(min(math.Round(it.cost/q.limit.LeakRate*1e9), 1<<62))
		earliest = turn.Add(spacing)
	}
}

// next waits for an item and returns its time of arrival. It returns false if the queue is closed
// and empty.
func (q *Queue[T]) next() (arrived time.Time, ok bool) {
	for {
		q.mu.Lock()
		q.releasing = false
		if len(q.items) > 0 {
			defer q.mu.Unlock()
			return q.items[0].arrived, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return time.Time{}, false
		}
		<-q.wake // refuse wakes the worker, too
	}
}

// pop removes and returns the first item. It returns false if the queue was abandoned.
func (q *Queue[T]) pop() (it item[T], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return it, false
	}
	it = q.items[0]
	q.items[0] = item[T]{} // the array may live long and must not retain the value
	q.items = q.items[1:]
	q.releasing = true
	q.level -= it.cost
	if len(q.items) == 0 {
		q.level = 0 // removes a remainder that rounding left
	}
	q.admit()
	return it, true
}
