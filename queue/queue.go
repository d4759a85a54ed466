// Package queue is the leaky bucket as a queue inside one process: items go in as they come, and a worker releases them one by
// one, in order, at the leak rate.
//
//	q, err := queue.New(brim.Smooth(5, 2*time.Second), func(ctx context.Context, m Mail) { send(ctx, m) }, nil)
//	...
//	err = q.Put(ctx, mail) // ErrFull: it did not fit
//	...
//	err = q.Close(ctx) // releases what is still in there
//
// The queue is in memory and the process's own. To share one among processes, or to have it survive, use brim's Shaper: there
// each caller waits for its own turn, and here nobody waits and the worker has the items.
package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

var (
	// ErrFull is the answer of Put to an item that does not fit. It is not in the queue.
	ErrFull = errors.New("queue: full")
	// ErrClosed is the answer of Put after Close or Abandon. The item is not in the queue.
	ErrClosed = errors.New("queue: closed")
)

// Options adjust a [Queue]. The zero value is the default.
type Options[T any] struct {
	// Block makes Put wait for room, in the order of the calls. Otherwise it drops what does not fit, with [ErrFull].
	Block bool
	// Cost is an item's size in units; nil means that each is one unit. It is called once per Put, by the caller of Put.
	Cost func(item T) float64
}

// Queue holds items until it is their turn. It may be used by any number of goroutines at once. It runs one goroutine, with one
// timer, until it is closed.
type Queue[T any] struct {
	limit   store.Limit
	release func(context.Context, T)
	options Options[T]
	ctx     context.Context // of the releases; ended by abandoning
	stop    context.CancelFunc
	wake    chan struct{} // tells the worker that something has changed
	done    chan struct{} // closed when the worker has ended

	mu      sync.Mutex
	items   []entry[T]
	level   float64 // units of items
	blocked []*waiter[T]
	closed  bool
}

type entry[T any] struct {
	item T
	cost float64
	came time.Time
}

// waiter is a Put that waits for room.
type waiter[T any] struct {
	entry[T]
	in     chan struct{} // closed when it is in, or will never be
	closed bool          // it will never be
}

// New returns a queue that lets limit.Capacity units wait and releases limit.LeakRate of them per second, by calling release
// for one item after the other from a goroutine of its own: see [brim.Smooth] for a capacity from the longest delay. The
// context that release gets ends when the queue is abandoned. The first item is released at once, and each other one when it
// comes, but not before its predecessor's cost/LeakRate has passed since that one's turn; a release that takes longer delays those
// behind it, and the time lost is not made up for by a burst.
//
// o may be nil. It fails with [store.ErrInvalidLimit] where the limit makes no sense or does not leak.
//
// [brim.Smooth]: https://pkg.go.dev/github.com/brimgo/brim#Smooth
func New[T any](limit store.Limit, release func(ctx context.Context, item T), o *Options[T]) (*Queue[T], error) {
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	if limit.LeakRate == 0 {
		return nil, fmt.Errorf("queue: %w: leak rate is 0: nothing would ever be released; use a positive one", store.ErrInvalidLimit)
	}
	if release == nil {
		return nil, errors.New("queue: release is nil; give the function that takes the items")
	}
	q := &Queue[T]{limit: limit, release: release, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if o != nil {
		q.options = *o
	}
	q.ctx, q.stop = context.WithCancel(context.Background())
	go q.work()
	return q, nil
}

// Put adds an item to the end of the queue. If it does not fit it is dropped with [ErrFull], or Put waits for room where
// [Options] say so; if the context ends first, its error is the answer and the item is not in the queue. An item that costs
// more than the capacity can never fit: [store.ErrInvalidAmount].
func (q *Queue[T]) Put(ctx context.Context, item T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := entry[T]{item: item, cost: 1}
	if q.options.Cost != nil {
		e.cost = q.options.Cost(item)
	}
	if !(e.cost >= 0 && e.cost <= q.limit.Capacity) {
		return fmt.Errorf("queue: %w: an item costs %v units; it must be from 0 to the capacity of %v", store.ErrInvalidAmount, e.cost, q.limit.Capacity)
	}
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case len(q.blocked) == 0 && q.fits(e.cost):
		q.add(e)
		q.mu.Unlock()
		return nil
	case !q.options.Block:
		q.mu.Unlock()
		return ErrFull
	}
	w := &waiter[T]{entry: e, in: make(chan struct{})}
	q.blocked = append(q.blocked, w)
	q.mu.Unlock()
	select {
	case <-w.in:
	case <-ctx.Done():
		if q.forget(w) {
			return ctx.Err()
		}
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// Len reports how many items wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Close takes no more items, releases those that wait, each in its turn, and returns when the last release has returned. If
// the context ends first, the items that are left are abandoned and the context's error is the answer: [Queue.Abandon] returns
// them. Puts that wait for room answer [ErrClosed]. Closing twice is allowed; closing from within release waits for itself.
func (q *Queue[T]) Close(ctx context.Context) error {
	q.refuse()
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	q.stop()
	<-q.done
	if n := q.Len(); n > 0 {
		return fmt.Errorf("queue: %d items abandoned: %w", n, ctx.Err())
	}
	return nil
}

// Abandon takes no more items and releases none, waits until a release that has begun has returned, and returns those that
// were not released, in order. A second call returns none.
func (q *Queue[T]) Abandon() []T {
	q.refuse()
	q.stop()
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	left := make([]T, 0, len(q.items))
	for _, e := range q.items {
		left = append(left, e.item)
	}
	q.items, q.level = nil, 0
	return left
}

// refuse closes the queue to new items.
func (q *Queue[T]) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, w := range q.blocked {
		w.closed = true
		close(w.in)
	}
	q.blocked = nil
	q.nudge()
}

// fits reports whether there is room. In an empty queue there is, whatever has been lost in rounding.
func (q *Queue[T]) fits(cost float64) bool {
	return len(q.items) == 0 || q.level+cost <= q.limit.Capacity
}

// add puts an entry at the end.
func (q *Queue[T]) add(e entry[T]) {
	e.came = time.Now()
	q.items = append(q.items, e)
	q.level += e.cost
	q.nudge()
}

func (q *Queue[T]) nudge() {
	select {
	case q.wake <- struct{}{}:
	default: // it has been told already
	}
}

// forget removes a Put that no longer waits, and reports whether it was still there. It may have stood in front of smaller ones
// that fit.
func (q *Queue[T]) forget(w *waiter[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.blocked {
		if other == w {
			q.blocked = append(q.blocked[:i], q.blocked[i+1:]...)
			q.admit()
			return true
		}
	}
	return false
}

// admit lets in those that wait for room, in order, as far as there is.
func (q *Queue[T]) admit() {
	for len(q.blocked) > 0 && q.fits(q.blocked[0].cost) {
		w := q.blocked[0]
		q.blocked[0] = nil
		q.blocked = q.blocked[1:]
		q.add(w.entry)
		close(w.in)
	}
}

// work releases one item after the other.
func (q *Queue[T]) work() {
	defer close(q.done)
	defer q.stop()
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var free time.Time        // when the next turn can be
	var spacing time.Duration // between the last turn and then
	for {
		came, ok := q.next()
		if !ok {
			return
		}
		// A timer fires a little late. Turns are counted from when they should have been, so that this does not add up; but no
		// more than one turn's worth of lateness is made up for, or a slow release would be followed by a burst.
		turn := free
		if came.After(turn) {
			turn = came
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
		e, ok := q.pop()
		if !ok {
			return
		}
		q.release(q.ctx, e.item)
		spacing = duration(e.cost / q.limit.LeakRate)
		free = turn.Add(spacing)
	}
}

// next waits for an item to be there and returns when it came; it reports false when there is none and will be none.
func (q *Queue[T]) next() (came time.Time, ok bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			defer q.mu.Unlock()
			return q.items[0].came, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return time.Time{}, false
		}
		<-q.wake // closing nudges too
	}
}

// pop takes out the first item, unless the queue was abandoned.
func (q *Queue[T]) pop() (e entry[T], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return e, false
	}
	e = q.items[0]
	q.items[0] = entry[T]{} // the array may live long: do not keep what was in it
	q.items = q.items[1:]
	q.level -= e.cost
	if len(q.items) == 0 {
		q.level = 0 // what rounding has left
	}
	q.admit()
	return e, true
}

// duration converts seconds; the longest Duration stands for what it cannot hold.
func duration(seconds float64) time.Duration {
	if ns := math.Round(seconds * 1e9); ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return math.MaxInt64
}
