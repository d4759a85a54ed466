package combine

import "runtime"

// lane runs one flush after another.
type lane[Q, A any] struct {
	c     *Combiner[Q, A]
	index int
	batch []*Request[Q, A] // of the flush in flight; owned by the goroutine that runs the lane
	came  uint64           // c.came when the last batch was answered
}

// lane takes an idle lane.
func (c *Combiner[Q, A]) lane() *lane[Q, A] {
	l := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return l
}

// run flushes until the lane has nothing more to do. behind says that a flush led by a caller
// came before.
func (l *lane[Q, A]) run(behind bool) {
	ended := false
	defer func() {
		if !ended && l.goOn(true) { // a flush ended this goroutine with runtime.Goexit
			go l.run(true)
		}
	}()
	if behind {
		l.c.gather(l.came, 1, patience)
	}
	for took := true; l.goOn(took); {
		err := l.c.before(l.index)
		took = l.take()
		rounds := l.rounds()
		l.flush(err)
		l.c.gather(l.came, len(l.batch), rounds)
	}
	ended = true
}

// take moves queued requests into the batch, from the head of the queue, and reports whether
// there were any. It leaves requests whose slot has a request in flight in another lane.
func (l *lane[Q, A]) take() bool {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.batch = l.batch[:0]
	c.free = 0
	for r := c.queue.first; r != nil && len(l.batch) < c.maxBatch; {
		next := r.next
		if c.busy[r.slot] == 0 {
			c.queue.remove(r)
			r.state = inFlight
			l.batch = append(l.batch, r)
		}
		r = next
	}
	for _, r := range l.batch {
		c.busy[r.slot]++
	}
	if len(l.batch) > 0 {
		c.taking--
	}
	return len(l.batch) > 0
}

// rounds returns how long gather waits for the callers of the batch, in rounds without any of them.
// If several callers come back with the slot that they share, no other lane serves them meanwhile.
func (l *lane[Q, A]) rounds() int {
	if len(l.batch) < 2 {
		return patience
	}
	for _, r := range l.batch[1:] {
		if r.slot != l.batch[0].slot {
			return patience
		}
	}
	return l.c.patience
}

// goOn reports whether the lane has more to do; else the lane is idle from then on. Requests
// that stay in the queue are for another lane that runs. That lane looks again when its flush
// is done, and the last lane that runs takes all requests.
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

// A lane lets answered callers run before it takes the queue again. Otherwise half of them
// would miss the next flush, and batches would be half full. Three rounds of the scheduler's
// queue are enough for an answered caller to come back with its next request, if this thread
// runs that caller. The lane waits for callers on other threads as long as more of them come,
// and patience rounds more, which take a few microseconds. [Options.Patience] is another number.
const (
	yields   = 3
	patience = 16
)

// gather waits for the n callers that were answered when c.came was at. It returns when they
// are back, or when no more of them come for so many rounds.
func (c *Combiner[Q, A]) gather(at uint64, n, patience int) {
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
