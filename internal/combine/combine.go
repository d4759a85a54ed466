// Package combine gathers the requests of concurrent callers, so that one commit or one
// statement answers all of them.
//
// Requests queue while a flush is in flight, and go out with the next flush. There is no timer:
// a request that finds an idle lane is flushed at once. A lane is a worker: it runs one flush at a
// time. Its goroutine starts when there is work and ends when there is none.
//
// # Contexts
//
// A flush never runs under a caller's context, so no caller's deadline cancels the request of
// another. When a caller's context ends while its request is queued, the caller takes the
// request back: nothing was applied, and the caller gets the context's error. When the context
// ends while the request is in flight, the caller does not wait for the flush: it gets an error
// that is both [store.ErrUnknownOutcome] and the context's.
package combine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// Combiner queues requests of type Q and answers each with an A. Any number of goroutines may
// use it at once.
type Combiner[Q, A any] struct {
	flush    func(lane int, batch []*Request[Q, A])
	before   func(lane int) error
	grace    time.Duration
	cut      func(lane int)
	after    func(lane int)
	flushed  func(requests int, took time.Duration, err error)
	maxBatch int
	minBatch int
	patience int
	pool     sync.Pool

	mu     sync.Mutex
	ended  sync.Cond // signalled when no lane runs any more
	closed bool      // no request may enter any more
	idle   []*lane[Q, A]
	lanes  int
	queue  list[Q, A]
	taking int           // lanes that run and have nothing in flight: they take the queue next
	free   int           // requests queued since the last take whose slot has nothing in flight
	busy   [slots]uint32 // by slot: the number of requests in flight

	came atomic.Uint64 // requests so far
}

// slots is how many groups of hashes are told apart. Two keys in one group merely wait for each
// other.
const slots = 1024

// New returns a combiner that hands batches to flush. For every request of a batch, flush sets
// Out or Err, or postpones the request. The callers get their answers when flush returns. flush
// must not keep the batch or its requests. Two flushes of one lane never run at once, so lane
// may index state of its own. If flush panics, every caller of the batch gets an error that is
// [store.ErrUnknownOutcome].
//
// flush must bound its own time: a flush that hangs holds up its lane and Close.
func New[Q, A any](flush func(lane int, batch []*Request[Q, A]), o *Options) (*Combiner[Q, A], error) {
	if o == nil {
		o = &Options{}
	}
	if flush == nil || o.Lanes < 0 || o.MaxBatch < 0 || o.MinBatch < 0 || o.Patience < 0 {
		return nil, errors.New("combine: New needs a flush function, and lanes, batch sizes and a patience that are not negative")
	}
	c := &Combiner[Q, A]{
		flush: flush, before: o.Before, grace: o.Grace, cut: o.Cut, after: o.After, flushed: o.Flushed,
		maxBatch: o.MaxBatch, minBatch: max(1, o.MinBatch), patience: o.Patience, lanes: max(1, o.Lanes),
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
	if c.patience == 0 {
		c.patience = patience
	}
	c.pool.New = func() any { return &Request[Q, A]{done: make(chan struct{}, 1)} }
	c.ended.L = &c.mu
	for i := range c.lanes {
		c.idle = append(c.idle, &lane[Q, A]{c: c, index: c.lanes - 1 - i}) // taken from the end: lane 0 first
	}
	return c, nil
}

// Do queues in and waits for the answer or the end of ctx. Requests that a flush has to decide
// together have one hash. Do allocates nothing once warm, if the context cannot end.
//
// The error is the one that the flush set; ctx's error if ctx ended before a flush took the
// request; ctx's error and [store.ErrUnknownOutcome] if ctx ended later; or [store.ErrClosed].
func (c *Combiner[Q, A]) Do(ctx context.Context, hash uint64, in Q) (out A, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	r := c.pool.Get().(*Request[Q, A])
	r.In, r.Hash, r.slot = in, hash, uint32(hash%slots)
	l, err := c.enter(ctx, r)
	switch {
	case err != nil:
		return out, err
	case l == nil:
		return c.await(ctx, r)
	}
	l.lead(ctx)
	<-r.done
	out, err = r.Out, r.Err
	c.release(r)
	if err != nil && ctx.Err() != nil {
		err = cutOff(ctx, err)
	}
	return out, err
}

// await waits for the answer to r, which another goroutine flushes.
func (c *Combiner[Q, A]) await(ctx context.Context, r *Request[Q, A]) (out A, err error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		if err := c.leave(ctx, r); err != nil {
			return out, err
		}
	}
	out, err = r.Out, r.Err
	c.release(r)
	return out, err
}

// DoAll queues requests of one hash at once, in their order, and waits for all answers. One flush
// takes them together, or several, one after the other, if they are more than MaxBatch. An answer
// and an error belong to each of them, as Do would return them.
func (c *Combiner[Q, A]) DoAll(ctx context.Context, hash uint64, in []Q) (out []A, errs []error) {
	out, errs = make([]A, len(in)), make([]error, len(in))
	requests := make([]*Request[Q, A], len(in))
	refused := ctx.Err()
	for i := range in {
		requests[i] = c.pool.Get().(*Request[Q, A])
		requests[i].In, requests[i].Hash, requests[i].slot = in[i], hash, uint32(hash%slots)
	}
	if refused == nil {
		refused = c.enterAll(requests)
	}
	for i, r := range requests {
		if errs[i] = refused; refused != nil {
			c.release(r)
			continue
		}
		out[i], errs[i] = c.await(ctx, r)
	}
	return out, errs
}

// enterAll queues requests of one slot. A goroutine of its own flushes them.
func (c *Combiner[Q, A]) enterAll(requests []*Request[Q, A]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return store.ErrClosed
	case len(requests) == 0:
		return nil
	}
	for _, r := range requests {
		c.queue.push(r)
		if c.busy[r.slot] == 0 {
			c.free++
		}
	}
	c.came.Add(uint64(len(requests)))
	c.start()
	return nil
}

// start lets an idle lane take the queue. A lane that is about to take it leaves nothing for
// another.
func (c *Combiner[Q, A]) start() {
	running := c.lanes - len(c.idle)
	if running == 0 || c.taking == 0 && len(c.idle) > 0 && c.free >= c.minBatch {
		c.taking++
		go c.lane().run(false)
	}
}

// enter queues r. A caller that finds nothing in flight flushes its request itself, which saves
// a change of goroutines: enter returns the lane for that. It returns none where the caller's
// context can end and nothing cuts a flush short.
func (c *Combiner[Q, A]) enter(ctx context.Context, r *Request[Q, A]) (*lane[Q, A], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.release(r)
		return nil, store.ErrClosed
	}
	running := c.lanes - len(c.idle)
	if running == 0 && (c.cut != nil || ctx.Done() == nil) {
		l := c.lane()
		r.state = inFlight
		c.busy[r.slot]++
		l.batch = append(l.batch[:0], r)
		return l, nil
	}
	c.came.Add(1)
	c.queue.push(r)
	if c.busy[r.slot] == 0 {
		c.free++
	}
	c.start()
	return nil, nil
}

// lead flushes the batch on the caller's goroutine. It leaves the requests that queued
// meanwhile to a goroutine of their own, so that a caller works for nobody else.
func (l *lane[Q, A]) lead(ctx context.Context) {
	defer func() {
		if l.goOn(true) {
			go l.run(true)
		}
	}()
	if ctx.Done() != nil {
		var mu sync.Mutex
		done := false // afterwards the lane may be flushing for others
		stop := context.AfterFunc(ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if !done {
				l.c.cut(l.index)
			}
		})
		defer func() {
			stop()
			mu.Lock()
			defer mu.Unlock()
			done = true
		}()
	}
	l.flush(l.c.before(l.index))
}

// flush sends the batch and answers it, also when the flush function panics. If Before failed
// with err, flush sends nothing and answers the batch with err.
func (l *lane[Q, A]) flush(err error) {
	switch {
	case err != nil && len(l.batch) > 0:
		l.answer(err)
		return
	case err != nil:
		return
	}
	defer l.c.after(l.index)
	if len(l.batch) == 0 { // everybody has left, or must wait for another lane
		return
	}
	returned := false
	var start time.Time
	if l.c.flushed != nil {
		start = time.Now()
	}
	defer func() {
		var failed error
		if !returned {
			failed = fmt.Errorf("%w: the flush did not return", store.ErrUnknownOutcome)
			if p := recover(); p != nil {
				failed = fmt.Errorf("%w: the flush panicked: %v", store.ErrUnknownOutcome, p)
			}
		}
		if l.c.flushed == nil {
			l.answer(failed)
			return
		}
		took, outcome := time.Since(start), l.outcome(failed)
		l.answer(failed)
		l.c.flushed(len(l.batch), took, outcome)
	}()
	l.c.flush(l.index, l.batch)
	returned = true
}

// outcome returns nil if a request of the batch succeeded, else the error of the first.
func (l *lane[Q, A]) outcome(failed error) error {
	if failed != nil {
		return failed
	}
	for _, r := range l.batch {
		if r.Err == nil {
			return nil
		}
	}
	return l.batch[0].Err
}

// answer wakes the callers of the batch, with failed if it is not nil, and puts postponed
// requests back into the queue.
func (l *lane[Q, A]) answer(failed error) {
	postponed := 0
	for _, r := range l.batch {
		if r.postponed {
			postponed++
		}
	}
	if failed == nil && postponed == len(l.batch) {
		failed = errOverPostponed
	}
	l.c.mu.Lock()
	l.came = l.c.came.Load()
	l.c.taking++
	// From the end, so that postponed requests keep their order at the front of the queue.
	for i := len(l.batch) - 1; i >= 0; i-- {
		r := l.batch[i]
		l.c.busy[r.slot]--
		switch {
		case r.state == abandoned:
			l.batch[i] = nil
		case failed == nil && r.postponed:
			r.postponed, r.state = false, queued
			l.c.queue.pushFront(r)
			l.batch[i] = nil
		default:
			if failed != nil {
				r.Err = failed
			}
			r.state = answered
		}
	}
	l.c.mu.Unlock()
	for i, r := range l.batch {
		if r != nil {
			l.batch[i] = nil
			r.done <- struct{}{} // the caller may use r for something else from here on
		}
	}
}

// leave ends a caller's wait because ctx is done. A nil error means that the answer had come
// already.
func (c *Combiner[Q, A]) leave(ctx context.Context, r *Request[Q, A]) error {
	c.mu.Lock()
	switch r.state {
	case queued:
		c.queue.remove(r)
		c.mu.Unlock()
		c.release(r)
		return ctx.Err()
	case inFlight:
		if c.grace > 0 && c.late(r) {
			return nil
		}
		r.state = abandoned // not used again: the flush may still write to r
		c.mu.Unlock()
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	c.mu.Unlock()
	<-r.done
	return nil
}

// late waits for the answer to r, which is in flight, for c.grace, and reports whether it came.
// It holds c.mu when it is called and when it returns false.
func (c *Combiner[Q, A]) late(r *Request[Q, A]) bool {
	c.mu.Unlock()
	t := time.NewTimer(c.grace)
	defer t.Stop()
	select {
	case <-r.done:
		return true
	case <-t.C:
	}
	c.mu.Lock()
	if r.state == inFlight {
		return false
	}
	c.mu.Unlock()
	<-r.done
	return true
}

// cutOff returns the error of a caller whose context ended while it flushed its own request,
// which failed with err.
func cutOff(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	return ctx.Err()
}

// Close refuses further requests with [store.ErrClosed], and returns when the queued requests
// have been flushed. It may be called more than once, but not from within a flush.
func (c *Combiner[Q, A]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for len(c.idle) < c.lanes {
		c.ended.Wait()
	}
}

// release makes r ready for another caller. No flush may still write to r.
func (c *Combiner[Q, A]) release(r *Request[Q, A]) {
	*r = Request[Q, A]{done: r.done}
	c.pool.Put(r)
}

// errOverPostponed answers a batch whose requests were all postponed.
var errOverPostponed = fmt.Errorf("%w: the flush postponed every request of its batch", store.ErrUnavailable)
