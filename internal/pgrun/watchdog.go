package pgrun

import (
	"context"
	"net"
	"sync"
	"time"
)

// watchdog ends the flushes of a lane that take too long.
//
// A timer for each flush would cost a lone caller some microseconds, because the runtime wakes
// a thread to look at the timer. A context that ends would make the driver start a goroutine.
// So one timer runs for as long as the lane is in use. It runs twice per timeout and looks at
// the flush in flight.
type watchdog struct {
	timeout time.Duration

	mu      sync.Mutex
	busy    bool // a flush is in flight; it may last until the time in until
	until   time.Time
	conn    net.Conn      // the connection of that flush; nil while the flush has none
	late    bool          // until has passed: conn's deadline is set, expired is closed
	expired chan struct{} // made anew after it was closed
	used    bool          // a flush has begun since the timer last ran
	timer   *time.Timer   // nil while the lane is not in use
}

func newWatchdog(timeout time.Duration) watchdog {
	return watchdog{timeout: timeout, expired: make(chan struct{})}
}

// start begins a flush.
func (w *watchdog) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.used, w.until = true, true, time.Now().Add(w.timeout)
	if w.late {
		w.late, w.expired = false, make(chan struct{})
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout/2, w.look)
	}
}

// watch tells the watchdog which connection the flush uses.
func (w *watchdog) watch(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	if w.late {
		w.cut()
	}
}

// unwatch tells the watchdog that the flush is done with its connection. The connection keeps
// no deadline.
func (w *watchdog) unwatch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late && w.conn != nil {
		_ = w.conn.SetDeadline(time.Time{}) // a closed connection needs none
	}
	w.conn = nil
}

// stop ends the flush.
func (w *watchdog) stop() {
	w.mu.Lock()
	w.busy = false
	w.mu.Unlock()
}

// close stops the timer. No flush may be in flight.
func (w *watchdog) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// look is the timer's function.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return // close came first
	}
	left := time.Until(w.until)
	switch {
	case w.busy && !w.late && left <= 0:
		w.expire()
		left = w.timeout / 2
	case w.busy && !w.late:
	case w.busy || w.used:
		left = w.timeout / 2
	default:
		w.timer = nil
		return
	}
	w.used = false
	w.timer.Reset(left)
}

// end ends the flush in flight at once.
func (w *watchdog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy && !w.late {
		w.expire()
	}
}

func (w *watchdog) expire() {
	w.late = true
	close(w.expired)
	w.cut()
}

// cut makes every read and write on the connection fail at once.
func (w *watchdog) cut() {
	if w.conn != nil {
		_ = w.conn.SetDeadline(time.Unix(1, 0)) // nothing waits for a closed connection
	}
}

// acquiring returns the context in which the flush waits for a connection.
func (w *watchdog) acquiring() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return flushContext{Context: context.Background(), expired: w.expired, until: w.until}
}

// flushing returns the context in which the flush uses its connection. Its Err reports the end
// of the flush, and its Done is nil: the driver would watch a channel with a goroutine, and the
// connection's deadline does the same without one.
func (w *watchdog) flushing() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return flushContext{Context: context.Background(), expired: w.expired, until: w.until, silent: true}
}

type flushContext struct {
	context.Context
	expired chan struct{}
	until   time.Time
	silent  bool
}

func (c flushContext) Deadline() (time.Time, bool) { return c.until, true }

func (c flushContext) Done() <-chan struct{} {
	if c.silent {
		return nil
	}
	return c.expired
}

func (c flushContext) Err() error {
	select {
	case <-c.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
