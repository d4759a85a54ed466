// Package combine gathers the requests of concurrent callers, so that one commit or one statement answers all of them.
//
// Whatever queued while the last flush was in flight goes out with the next. There is no timer: a request that finds its
// lane idle is flushed at once. A lane has one flush in flight at a time; the goroutine that flushes is started when there is
// work and ends when there is none.
//
// # Contexts
//
// A flush never runs under a caller's context, so nobody's deadline cancels a neighbour's request. A caller whose context
// ends while its request is still queued takes it back: it was not applied, and the caller gets the context's error. One
// whose request is in flight does not wait for it: the caller gets an error that is both [store.ErrUnknownOutcome] and the
// context's.
package combine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// DefaultMaxBatch is the largest number of requests in a flush where [Options] do not say otherwise.
const DefaultMaxBatch = 4096

// Options are the choices of [New]. A nil *Options means all defaults.
type Options struct {
	// Lanes is how many flushes may be in flight at once; 0 means 1. Requests of one hash are never in two of them.
	Lanes int
	// MinBatch is how many requests must have queued before another flush is sent beside those in flight; 0 means 1. What a
	// flush costs beside its requests is paid twice where they are shared out.
	MinBatch int
	// MaxBatch is the largest number of requests in a flush; 0 means [DefaultMaxBatch]. What is left goes with the next.
	MaxBatch int
	// Before, if set, runs before a lane's requests are taken up: it may wait for what the flush needs, a connection for
	// instance, while callers can still take their requests back. If it fails, the requests that are queued by then get its
	// error and are not flushed. It must bound its own time.
	Before func(lane int) error
	// Cut, if set, ends what the lane's Before or flush is doing, as soon as it can be ended: they then return, with an error if
	// they were not done. With it a caller that finds nothing in flight can flush its own request even if its context can end;
	// nobody else's is cut off.
	Cut func(lane int)
	// After, if set, runs when each successful Before's batch has been flushed, or was found empty.
	After func(lane int)
	// Flushed, if set, is told of each flush when its callers have been answered: how many requests it had, how long it took,
	// and why none of them succeeded, or nil if one did. The lane's next flush waits for it.
	Flushed func(requests int, took time.Duration, err error)
}

// Request is one caller's question and its answer. A flush reads In and sets either Out or Err.
//
// In may outlive its caller, who has gone when its context ended in flight: it must not refer to memory that the caller may
// change after [Combiner.Do] returned.
type Request[Q, A any] struct {
	In  Q
	Out A
	Err error

	postponed  bool
	slot       uint32 // of the hash
	state      state  // guarded by the combiner's mutex
	next, prev *Request[Q, A]
	done       chan struct{} // one token when the answer is there
}

// Postpone leaves the request for the next flush, ahead of what has queued since. A flush may postpone some of its requests,
// but not all: that is answered as a failure, because it would go on for ever.
func (r *Request[Q, A]) Postpone() { r.postponed = true }

type state uint8

const (
	queued    state = iota // may still be taken back
	inFlight               // a flush has it
	answered               // Out or Err is set, and the token sent or about to be
	abandoned              // the caller has gone; only the flush still refers to it
)

// Combiner queues requests of type Q and answers each with an A. Any number of goroutines may use it at once.
type Combiner[Q, A any] struct {
	flush    func(lane int, batch []*Request[Q, A])
	before   func(lane int) error
	cut      func(lane int)
	after    func(lane int)
	flushed  func(requests int, took time.Duration, err error)
	maxBatch int
	minBatch int
	pool     sync.Pool

	mu      sync.Mutex
	ended   sync.Cond // signalled when no lane runs any more
	closed  bool      // no request may enter any more
	idle    []*lane[Q, A]
	lanes   int
	queue   list[Q, A]
	taking  int           // lanes that run and have nothing in flight: they take the queue next
	free    int           // requests that have queued since the last take and could be in flight beside what is
	flights [slots]uint32 // by slot: how many requests are in flight

	came atomic.Uint64 // requests so far
}

// slots is how many groups of hashes are told apart. Two keys in one group merely wait for each other.
const slots = 1024

// New returns a combiner that hands batches to flush. For every request of a batch, flush sets Out or Err, or postpones it;
// all of them are answered when flush returns. The batch and its requests are not flush's to keep. A flush of one lane never
// runs beside another of the same lane, so lane may index state of its own. If flush panics, every caller of the batch gets
// an error that is [store.ErrUnknownOutcome].
//
// flush must bound its own time: a flush that hangs holds up its lane and Close.
func New[Q, A any](flush func(lane int, batch []*Request[Q, A]), o *Options) (*Combiner[Q, A], error) {
	if o == nil {
		o = &Options{}
	}
	if flush == nil || o.Lanes < 0 || o.MaxBatch < 0 || o.MinBatch < 0 {
		return nil, errors.New("combine: New needs a flush function, and lanes and a batch size that are not negative")
	}
	c := &Combiner[Q, A]{
		flush: flush, before: o.Before, cut: o.Cut, after: o.After, flushed: o.Flushed,
		maxBatch: o.MaxBatch, minBatch: max(1, o.MinBatch), lanes: max(1, o.Lanes),
	}
	if c.before == nil {
		c.before = func(int) error { return nil }
	}
	if c.after == nil {
		c.after = func(int) {}
	}
	if c.maxBatch == 0 {
		c.maxBatch = DefaultMaxBatch
	}
	c.pool.New = func() any { return &Request[Q, A]{done: make(chan struct{}, 1)} }
	c.ended.L = &c.mu
	for i := range c.lanes {
		c.idle = append(c.idle, &lane[Q, A]{c: c, index: c.lanes - 1 - i}) // taken from the end: lane 0 first
	}
	return c, nil
}

// Do queues in and waits for the answer or the end of ctx. Requests that a flush has to decide together have one hash. Do
// allocates nothing once warm, if the context cannot end.
//
// The error is the flush's, as it was set; ctx's error if ctx ended before the request was taken up; that and
// [store.ErrUnknownOutcome] if ctx ended later; or [store.ErrClosed].
func (c *Combiner[Q, A]) Do(ctx context.Context, hash uint64, in Q) (out A, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	r := c.pool.Get().(*Request[Q, A])
	r.In, r.slot = in, uint32(hash%slots)
	led, err := c.enter(ctx, r)
	if err != nil {
		return out, err
	}
	if !led {
		select {
		case <-r.done:
		case <-ctx.Done():
			if err := c.leave(ctx, r); err != nil {
				return out, err
			}
		}
	}
	out, err = r.Out, r.Err
	c.release(r)
	if led && err != nil && ctx.Err() != nil {
		err = cutOff(ctx, err)
	}
	return out, err
}

// cutOff is the error of a caller whose context ended while it flushed its own request, and of what became of that.
func cutOff(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	return ctx.Err()
}

// Close refuses further requests with [store.ErrClosed], and returns when those already queued have been flushed. It may be
// called more than once, but not from within a flush.
func (c *Combiner[Q, A]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for len(c.idle) < c.lanes {
		c.ended.Wait()
	}
}

// release makes r ready for another caller. Only a request that no flush can still write to may come here.
func (c *Combiner[Q, A]) release(r *Request[Q, A]) {
	*r = Request[Q, A]{done: r.done}
	c.pool.Put(r)
}

// The flusher lets others run before it takes the queue again. Without that, half of the callers that it has just answered would
// miss the next flush, and batches would be half full. Three rounds of the scheduler's queue are enough for an answered caller
// to come back with its next request, where this thread runs it; those that others run are waited for as long as more of them
// come, and patience rounds more, which take a few microseconds.
const (
	yields   = 3
	patience = 16
)

// gather lets the n callers come back that were answered when c.came was at. It returns when they have, or nobody comes any more.
func (c *Combiner[Q, A]) gather(at uint64, n int) {
	for range yields {
		runtime.Gosched()
	}
	for quiet, seen := 0, uint64(0); quiet < patience && seen < uint64(n); quiet++ {
		if now := c.came.Load() - at; now != seen {
			quiet, seen = 0, now
		}
		runtime.Gosched()
	}
}

// errOverPostponed answers a batch whose requests were all postponed.
var errOverPostponed = fmt.Errorf("%w: the flush postponed every request of its batch", store.ErrUnavailable)
