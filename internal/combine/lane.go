package combine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/brimgo/brim/store"
)

// lane is one flush in flight after another.
type lane[Q, A any] struct {
	c     *Combiner[Q, A]
	index int
	batch []*Request[Q, A] // of the flush in flight; whoever took the lane owns it
	came  uint64           // what c.came was when the last batch was answered
}

// enter queues r. A caller that finds nothing in flight flushes its request itself, which saves handing it over, unless its
// context could call it away and nothing cuts a flush short; led then says that r is answered already.
func (c *Combiner[Q, A]) enter(ctx context.Context, r *Request[Q, A]) (led bool, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.release(r)
		return false, store.ErrClosed
	}
	running := c.lanes - len(c.idle)
	if running == 0 && (c.cut != nil || ctx.Done() == nil) {
		l := c.lane()
		r.state = inFlight
		c.flights[r.slot]++
		l.batch = append(l.batch[:0], r)
		c.mu.Unlock()
		l.lead(ctx)
		<-r.done
		return true, nil
	}
	c.came.Add(1)
	c.queue.push(r)
	if c.flights[r.slot] == 0 {
		c.free++
	}
	// A lane that is about to take the queue leaves nothing for another.
	if running == 0 || c.taking == 0 && len(c.idle) > 0 && c.free >= c.minBatch {
		c.taking++
		go c.lane().run(false)
	}
	c.mu.Unlock()
	return false, nil
}

// lane takes a lane that is idle.
func (c *Combiner[Q, A]) lane() *lane[Q, A] {
	l := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return l
}

// lead flushes the batch on the caller's goroutine and leaves what has queued meanwhile to one of its own: a caller works
// for nobody else.
func (l *lane[Q, A]) lead(ctx context.Context) {
	defer func() {
		if l.goOn(true) {
			go l.run(true)
		}
	}()
	if ctx.Done() != nil {
		var mu sync.Mutex
		done := false // the lane may be flushing for others
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

// run flushes until there is nothing for this lane.
func (l *lane[Q, A]) run(behind bool) {
	ended := false
	defer func() {
		if !ended && l.goOn(true) { // a flush ended this goroutine with runtime.Goexit
			go l.run(true)
		}
	}()
	if behind {
		l.c.gather(l.came, 1)
	}
	for took := true; l.goOn(took); {
		err := l.c.before(l.index)
		took = l.take()
		l.flush(err)
		l.c.gather(l.came, len(l.batch))
	}
	ended = true
}

// take moves what has queued into the batch, from its head, but for what must not be in flight beside what other lanes have,
// and reports whether there was anything.
func (l *lane[Q, A]) take() bool {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.batch = l.batch[:0]
	c.free = 0
	for r := c.queue.first; r != nil && len(l.batch) < c.maxBatch; {
		next := r.next
		if c.flights[r.slot] == 0 {
			c.queue.remove(r)
			r.state = inFlight
			l.batch = append(l.batch, r)
		}
		r = next
	}
	for _, r := range l.batch {
		c.flights[r.slot]++
	}
	if len(l.batch) > 0 {
		c.taking--
	}
	return len(l.batch) > 0
}

// goOn reports whether there is something for this lane. If not, it is idle from then on. What is left in the queue is for
// another that runs: it looks again when its flush is done, and the last that runs takes whatever there is.
func (l *lane[Q, A]) goOn(took bool) bool {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.lanes - len(c.idle) - 1
	if c.queue.length > 0 && (others == 0 || took && c.queue.length >= c.minBatch) {
		return true
	}
	c.taking--
	c.idle = append(c.idle, l)
	if others == 0 {
		c.ended.Broadcast()
	}
	return false
}

// flush sends the batch and answers it, also when the flush function panics. What was prepared for it failed with err, if
// that is not nil: then nothing is sent.
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

// outcome is why no request of the batch succeeded, or nil if one did.
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

// answer wakes the callers of the batch, with failed if it is not nil, and puts back what was postponed.
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
	// From the end, so that what is put back in front of the queue keeps its order.
	for i := len(l.batch) - 1; i >= 0; i-- {
		r := l.batch[i]
		l.c.flights[r.slot]--
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

// leave ends a caller's wait because ctx is done. A nil error means that the answer was there after all.
func (c *Combiner[Q, A]) leave(ctx context.Context, r *Request[Q, A]) error {
	c.mu.Lock()
	switch r.state {
	case queued:
		c.queue.remove(r)
		c.mu.Unlock()
		c.release(r)
		return ctx.Err()
	case inFlight:
		r.state = abandoned // the flush may still write to r: it is left to the garbage collector, not used again
		c.mu.Unlock()
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	c.mu.Unlock()
	<-r.done
	return nil
}
