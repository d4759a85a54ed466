package combine

import (
	"context"
	"fmt"
	"sync"

	"github.com/brimgo/brim/store"
)

// lane is a queue with at most one flush in flight.
type lane[Q, A any] struct {
	c     *Combiner[Q, A]
	index int

	mu     sync.Mutex
	idle   sync.Cond      // signalled when busy becomes false
	closed bool           // no request may enter any more
	busy   bool           // somebody flushes, and looks at the queue again afterwards
	first  *Request[Q, A] // a list, so that one request is taken back in the same time however many wait
	last   *Request[Q, A]

	batch []*Request[Q, A] // of the flush in flight; whoever made the lane busy owns it
}

// enter queues r. A caller that cannot be called away by its context and finds the lane idle flushes its request itself,
// which saves handing it over; led then says that r is answered already.
func (l *lane[Q, A]) enter(r *Request[Q, A], mayLead bool) (led bool, err error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		l.c.release(r)
		return false, store.ErrClosed
	case l.busy:
		l.push(r)
		l.mu.Unlock()
		return false, nil
	}
	l.busy = true
	if !mayLead {
		l.push(r)
		l.mu.Unlock()
		go l.run(false)
		return false, nil
	}
	r.state = inFlight
	l.batch = append(l.batch[:0], r)
	l.mu.Unlock()
	l.lead()
	<-r.done
	return true, nil
}

// lead flushes the batch on the caller's goroutine and leaves what has queued meanwhile to one of its own: a caller works
// for nobody else.
func (l *lane[Q, A]) lead() {
	defer func() {
		if l.rest() {
			go l.run(true)
		}
	}()
	l.flush(l.c.before(l.index))
}

// run flushes until the queue is empty.
func (l *lane[Q, A]) run(behind bool) {
	ended := false
	defer func() {
		if !ended && l.rest() { // a flush ended this goroutine with runtime.Goexit
			go l.run(true)
		}
	}()
	if behind {
		yield()
	}
	for l.rest() {
		err := l.c.before(l.index)
		l.take()
		l.flush(err)
		yield()
	}
	ended = true
}

// take moves the head of the queue into the batch.
func (l *lane[Q, A]) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch = l.batch[:0]
	for r := l.first; r != nil && len(l.batch) < l.c.maxBatch; r = l.first {
		l.remove(r)
		r.state = inFlight
		l.batch = append(l.batch, r)
	}
}

// rest reports whether something has queued; if not, the lane is idle from then on.
func (l *lane[Q, A]) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.busy = false
		l.idle.Broadcast()
	}
	return l.first != nil
}

// flush sends the batch and answers it, also when the flush function panics. What was prepared for it failed with err, if
// that is not nil: then nothing is sent.
func (l *lane[Q, A]) flush(err error) {
	if err != nil {
		l.answer(err)
		return
	}
	defer l.c.after(l.index)
	if len(l.batch) == 0 { // everybody has left
		return
	}
	returned := false
	defer func() {
		var failed error
		if !returned {
			failed = fmt.Errorf("%w: the flush did not return", store.ErrUnknownOutcome)
			if p := recover(); p != nil {
				failed = fmt.Errorf("%w: the flush panicked: %v", store.ErrUnknownOutcome, p)
			}
		}
		l.answer(failed)
	}()
	l.c.flush(l.index, l.batch)
	returned = true
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
	l.mu.Lock()
	// From the end, so that what is put back in front of the queue keeps its order.
	for i := len(l.batch) - 1; i >= 0; i-- {
		r := l.batch[i]
		switch {
		case r.state == abandoned:
			l.batch[i] = nil
		case failed == nil && r.postponed:
			r.postponed, r.state = false, queued
			l.pushFront(r)
			l.batch[i] = nil
		default:
			if failed != nil {
				r.Err = failed
			}
			r.state = answered
		}
	}
	l.mu.Unlock()
	for i, r := range l.batch {
		if r != nil {
			l.batch[i] = nil
			r.done <- struct{}{} // the caller may use r for something else from here on
		}
	}
}

// leave ends a caller's wait because ctx is done. A nil error means that the answer was there after all.
func (l *lane[Q, A]) leave(ctx context.Context, r *Request[Q, A]) error {
	l.mu.Lock()
	switch r.state {
	case queued:
		l.remove(r)
		l.mu.Unlock()
		l.c.release(r)
		return ctx.Err()
	case inFlight:
		r.state = abandoned // the flush may still write to r: it is left to the garbage collector, not used again
		l.mu.Unlock()
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	l.mu.Unlock()
	<-r.done
	return nil
}

func (l *lane[Q, A]) push(r *Request[Q, A]) {
	r.prev = l.last
	if l.last != nil {
		l.last.next = r
	} else {
		l.first = r
	}
	l.last = r
}

func (l *lane[Q, A]) pushFront(r *Request[Q, A]) {
	r.next = l.first
	if l.first != nil {
		l.first.prev = r
	} else {
		l.last = r
	}
	l.first = r
}

func (l *lane[Q, A]) remove(r *Request[Q, A]) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.next, r.prev = nil, nil
}
