package lin

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
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
	// strike cuts a connection or kills a process, and returns when that is done. It calls now
	// right before. The result is nil, or the call that stands for the end of the process that
	// carried out all calls before.
	strike(r *rand.Rand, now func()) (death request, err error)
	// settle ends everything that may still carry out a call of unknown outcome. Only finals
	// follow.
	settle() error
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
	began time.Time
	slots chan struct{} // one is taken for each call in flight
	ended atomic.Int64  // calls
	r     *rand.Rand    // of the strikes

	striking sync.Mutex
	mu       sync.Mutex
	reserved int // calls in flight that may become unknown
	err      error
}

// play runs a plan and returns the calls of the history.
func play(w world, p plan) ([]*call, error) {
	h := &played{
		world: w, plan: p, began: time.Now(), slots: make(chan struct{}, clients),
		r: rand.New(rand.NewPCG(p.seed, 1)),
	}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			for _, s := range h.steps {
				if s.client != n {
					continue
				}
				if err := h.call(s); err != nil {
					h.fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.fail(w.settle())
	h.rec.dead()
	h.fail(h.resend())
	for _, in := range w.finals() {
		h.fail(h.call(step{in: in}))
	}
	h.fail(w.close())
	return h.rec.calls, h.err
}

func (h *played) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
}

// call carries out one step, and the strike that follows it.
func (h *played) call(s step) error {
	clock := h.world.time()
	if n := s.in.ticks(); n != 0 {
		if clock == nil {
			return nil
		}
		return clock.tick(&h.rec, n)
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
	c.out = h.do(ctx, s.client, s.in)
	if clock != nil {
		c.readings = clock.between(c.began, h.rec.stamp())
	}
	c.wall = time.Since(h.began)
	h.rec.finish(c)
	<-h.slots
	if h.strikes[h.ended.Add(1)] {
		return h.hit()
	}
	return nil
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

// hit strikes while so few calls are in flight that all of them may become unknown.
func (h *played) hit() error {
	h.striking.Lock()
	defer h.striking.Unlock()
	n := h.reserve(1 + h.r.IntN(clients-1))
	if n == 0 {
		return nil
	}
	defer h.free(n)
	for range clients - n {
		h.slots <- struct{}{}
	}
	began := h.rec.stamp()
	var wall time.Duration
	death, err := h.strike(h.r, func() { wall = time.Since(h.began) })
	for range n {
		h.slots <- struct{}{}
	}
	if death != nil {
		h.rec.dead()
		h.rec.add(&call{client: clients, in: death, out: done{}, began: began, over: h.rec.stamp(), wall: wall})
	}
	for range clients {
		<-h.slots
	}
	return err
}
