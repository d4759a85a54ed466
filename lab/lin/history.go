package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
)

const (
	clients = 8
	each    = 40 // calls of a client
	// mostUnknown is the largest number of calls of unknown outcome in a history. The time of a
	// check grows exponentially with it.
	mostUnknown = 9
)

// world is a subject for one history.
type world interface {
	model() model
	// time returns the history's clock, or nil if the subject has a clock of its own.
	time() *clock
	// do carries out a call of a client.
	do(ctx context.Context, client int, in request) response
	// strike carries out a random fault, and returns when that is mended. The result is nil, or the
	// call that stands for the end of the process that carried out all calls before.
	strike(b *blow) (death request, err error)
	// rest ends everything that may still carry out a call of unknown outcome. Only finals
	// follow.
	rest() error
	// finals returns the calls that read the content in the end.
	finals() []request
	close() error
}

// step is a planned call.
type step struct {
	client   int
	in       request
	patience time.Duration // the time after which its context ends; 0 for a context without end
}

// plan is a history before it is run.
type plan struct {
	steps   []step
	strikes map[int64]bool // a strike follows these calls, counted in the order in which they end
	seed    uint64         // of the strikes
}

// played is a history in progress.
type played struct {
	world
	plan
	rec   recorder
	slots chan struct{} // one is taken for each call in flight
	ended atomic.Int64  // calls
	r     *rand.Rand    // of the strikes

	one      sync.Mutex // held during a strike
	mu       sync.Mutex
	striking bool
	burnt    int // slots of calls that became unknown during the strike
	reserved int // calls in flight that may become unknown
	err      error
}

// play runs a plan and returns the calls of the history.
func play(w world, p plan) ([]*call, error) {
	h := &played{
		world: w, plan: p, slots: make(chan struct{}, clients),
		r: rand.New(rand.NewPCG(p.seed, 1)),
	}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			for _, s := range h.steps {
				if s.client != n {
					continue
				}
				if _, err := h.call(s); err != nil {
					h.fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.fail(w.rest())
	h.rec.dead()
	if clock := w.time(); clock != nil {
		for _, c := range h.rec.all() {
			if c.out == nil { // a store may read the clock after its caller has gone
				c.readings = clock.between(c.began, c.over)
			}
		}
	}
	h.fail(h.resend())
	for _, in := range w.finals() {
		h.fail(h.insist(step{in: in}))
	}
	h.fail(w.close())
	return h.rec.calls, h.err
}

func (h *played) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
}

// recovery is the time after which a subject that is no longer disturbed must answer, also on a
// busy machine.
const recovery = time.Minute

// insist carries out a step again until it has an answer.
func (h *played) insist(s step) error {
	for end := time.Now().Add(recovery); ; time.Sleep(5 * time.Millisecond) {
		out, err := h.call(s)
		if err != nil || out.failure() != history.NotApplied {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("lin: all is well, and %v has no answer in %v: %v", s.in, recovery, out)
		}
	}
}

// call carries out one step, and the strike that follows it.
func (h *played) call(s step) (out response, err error) {
	clock := h.world.time()
	if n := s.in.ticks(); n != 0 {
		if clock == nil {
			return done(""), nil
		}
		return done(""), clock.tick(&h.rec, n)
	}
	ctx := context.Background()
	if s.patience > 0 && h.reserve(1) == 1 {
		defer h.free(1)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.patience)
		defer cancel()
	}
	h.slots <- struct{}{}
	c := &call{client: s.client, in: s.in, began: h.rec.stamp()}
	runtime.Gosched() // so that others begin meanwhile
	out = h.do(ctx, s.client, s.in)
	c.out = out
	if clock != nil {
		c.readings = clock.between(c.began, h.rec.stamp())
	}
	h.rec.finish(c)
	if out.failure() != history.Unknown || !h.burn() {
		<-h.slots
	}
	if odd := out.odd(); odd != "" {
		return out, fmt.Errorf("lin: %v: an error that tells nothing about the outcome: %s", s.in, odd)
	}
	if h.strikes[h.ended.Add(1)] {
		return out, h.hit()
	}
	return out, nil
}

// reserve returns how many of n calls may become unknown.
func (h *played) reserve(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = max(0, min(n, mostUnknown-h.rec.unknown()-h.reserved))
	h.reserved += n
	return n
}

func (h *played) free(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved -= n
}

// burn keeps the slot of a call that became unknown until the strike is over: no call takes its
// place, which could become unknown, too.
func (h *played) burn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.striking {
		h.burnt++
	}
	return h.striking
}

// blow is a strike in progress. Calls go on meanwhile, at most as many at once as may still become
// unknown.
type blow struct {
	h      *played
	r      *rand.Rand
	slots  int // that calls may take
	taken  int // slots that calls cannot take
	landed bool
	split  bool // a primary that is cut off may answer until the strike is over
}

// soon lets the calls in flight get so far.
func (b *blow) soon() {
	time.Sleep(time.Duration(b.r.IntN(3000)) * time.Microsecond)
}

// land waits until every call in flight has an answer, and has no other begin.
func (b *blow) land() error {
	if b.landed {
		return nil
	}
	b.landed = true
	b.h.mu.Lock()
	b.h.striking = false
	b.taken += b.h.burnt
	left := b.slots - b.h.burnt
	b.h.burnt = 0
	b.h.mu.Unlock()
	late := time.After(recovery)
	for ; left > 0; left-- {
		select {
		case b.h.slots <- struct{}{}:
			b.taken++
		case <-late:
			return fmt.Errorf("lin: %d calls have no answer after %v", left, recovery)
		}
	}
	return nil
}

// hit strikes while so few calls are in flight that all of them may become unknown.
func (h *played) hit() error {
	h.one.Lock()
	defer h.one.Unlock()
	n := h.reserve(1 + h.r.IntN(clients-1))
	if n == 0 {
		return nil
	}
	defer h.free(n)
	b := &blow{h: h, r: h.r, slots: n}
	for range clients - n {
		h.slots <- struct{}{}
		b.taken++
	}
	h.mu.Lock()
	h.striking = true
	h.mu.Unlock()
	began := h.rec.stamp()
	death, err := h.strike(b)
	err = errors.Join(err, b.land())
	if death != nil {
		h.rec.dead()
		h.rec.add(&call{client: clients, in: death, out: done(""), began: began, over: h.rec.stamp()})
	}
	if b.split { // no call is in flight
		h.rec.split(began)
	}
	for range b.taken {
		<-h.slots
	}
	return err
}
