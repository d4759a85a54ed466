package sched

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// The fates of requests in a flush: call.amount.
const (
	fateFine      = iota
	fateRefused   // its own error
	fatePostponed // once
	fatePanic     // with the whole batch
	fates
)

var combineSubject = &subject{
	name: "combine",
	random: func(r *rand.Rand) program {
		// lanes; least batch; largest batch; bits: Cut, Before and After, a slow flush
		p := program{config: [4]int{1 + r.IntN(3), 1 + r.IntN(2), r.IntN(4), r.IntN(8)}}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(8) {
			c := randomCall(r, actors, "do", 40)
			c.key = r.IntN(3)
			switch r.IntN(20) {
			case 0:
				c.do = "close"
			case 1, 2, 3:
				c.amount = r.IntN(fates)
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &combineWorld{
			program: p, requests: make([]combineRequest, len(p.calls)),
			flights: make([][]int, p.config[0]), cut: make([]bool, p.config[0]),
		}
	},
}

// combineWorld counts for each key how many requests a flush has decided. A request is answered
// with the count.
type combineWorld struct {
	program
	verdict
	c *combine.Combiner[int, int]

	mu       sync.Mutex
	counts   [3]int
	deciding [3]bool          // a flush has read the count and will write it
	requests []combineRequest // by call
	flights  [][]int          // by lane: the calls of the flush in flight
	before   map[int]bool     // the lanes between Before and After
	cut      []bool
	closing  bool
	closed   bool
}

type combineRequest struct {
	ctx       context.Context
	late      bool // it began after Close had returned
	written   int  // how often a flush wrote it
	drew      int  // the count that its flush wrote
	postponed bool
	given     bool
	err       error
}

var errFate = errors.New("the request's own error")

func (w *combineWorld) setup() (err error) {
	o := &combine.Options{Lanes: w.config[0], MinBatch: w.config[1], MaxBatch: w.config[2]}
	if w.config[3]&1 != 0 {
		o.Cut = w.cutLane
	}
	if w.config[3]&2 != 0 {
		w.before = make(map[int]bool)
		o.Before = func(lane int) error { w.passed(lane, true); return nil }
		o.After = func(lane int) { w.passed(lane, false) }
	}
	w.c, err = combine.New(w.flush, o)
	return err
}

// passed notes a Before, or else an After.
func (w *combineWorld) passed(lane int, before bool) {
	runtime.Gosched()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.before[lane] == before {
		w.wrong("Before or After of lane %d came twice", lane)
	}
	w.before[lane] = before
}

// cutLane is told to end the flush of a caller whose context has ended.
func (w *combineWorld) cutLane(lane int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.flights[lane] {
		w.cut[lane] = true
		if w.requests[i].ctx.Err() == nil {
			w.wrong("Cut ends the flush of call %d, whose context has not ended", i)
		}
	}
}

func (w *combineWorld) flush(lane int, batch []*combine.Request[int, int]) {
	counts, keys := w.decide(lane, batch)
	runtime.Gosched()
	if w.config[3]&4 != 0 {
		time.Sleep(time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		w.flights[lane], w.cut[lane] = nil, false
		for key, mine := range keys {
			w.deciding[key] = w.deciding[key] && !mine
		}
	}()
	for _, r := range batch {
		c, q := w.calls[r.In], &w.requests[r.In]
		switch {
		case w.cut[lane]:
			r.Err = store.ErrUnavailable // nothing was done
		case c.amount == fateRefused:
			r.Err = errFate
		case c.amount == fatePanic:
			panic("a flush that fails")
		case c.amount == fatePostponed && !q.postponed && r != batch[0]:
			q.postponed = true
			r.Postpone()
		default:
			counts[c.key]++
			q.written++
			q.drew, r.Out = counts[c.key], counts[c.key]
		}
		w.counts[c.key] = counts[c.key]
	}
}

// decide begins a flush. It returns the counts, which are written later, and the keys of the
// batch. A flush of one of the keys between the two would lose an update.
func (w *combineWorld) decide(lane int, batch []*combine.Request[int, int]) (counts [3]int, keys [3]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch most := w.config[2]; {
	case w.flights[lane] != nil:
		w.wrong("two flushes of lane %d at once", lane)
	case len(batch) == 0, most > 0 && len(batch) > most:
		w.wrong("a batch of %d requests; the most is %d", len(batch), most)
	case w.closed:
		w.wrong("a flush after Close has returned")
	}
	for _, r := range batch {
		w.flights[lane] = append(w.flights[lane], r.In)
		key := w.calls[r.In].key
		if w.deciding[key] && !keys[key] {
			w.wrong("two flushes decide key %d at once", key)
		}
		w.deciding[key], keys[key] = true, true
	}
	return w.counts, keys
}

func (w *combineWorld) do(ctx context.Context, i int, c call) {
	if c.do == "close" {
		w.close()
		return
	}
	if c.leave > 0 {
		for range 3 { // a context ends for many, so the combiner may learn of it late
			defer context.AfterFunc(ctx, runtime.Gosched)()
		}
	}
	q := &w.requests[i]
	w.mu.Lock()
	q.ctx, q.late = ctx, w.closed
	w.mu.Unlock()
	out, err := w.c.Do(ctx, uint64(c.key), i)
	w.mu.Lock()
	defer w.mu.Unlock()
	q.given, q.err = true, err
	switch {
	case err == nil && (q.written != 1 || out != q.drew):
		w.wrong("call %d got %d; a flush answered %d, %d times", i, out, q.drew, q.written)
	case ended(err) && ctx.Err() == nil:
		w.wrong("call %d got %v although its context had not ended", i, err)
	case q.late && !errors.Is(err, store.ErrClosed) && !ended(err):
		w.wrong("call %d came after Close and got %v", i, err)
	case errors.Is(err, store.ErrClosed) && !w.closing:
		w.wrong("call %d got %v before Close", i, err)
	}
}

func (w *combineWorld) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for lane, flight := range w.flights {
		if flight != nil {
			w.wrong("Close returned during a flush of lane %d", lane)
		}
	}
}

func (w *combineWorld) finish() { w.close() }

func (w *combineWorld) check() error {
	total, sum := 0, 0
	for i, q := range w.requests {
		total += q.written
		switch {
		case q.written > 1:
			w.wrong("call %d was flushed %d times", i, q.written)
		case q.err != nil && !errors.Is(q.err, store.ErrUnknownOutcome) && q.written != 0:
			w.wrong("call %d was flushed although it got %v", i, q.err)
		}
	}
	for _, n := range w.counts {
		sum += n
	}
	if sum != total {
		w.wrong("%d requests were flushed and %d were counted: an update was lost", total, sum)
	}
	for lane, open := range w.before {
		if open {
			w.wrong("lane %d had a Before without an After", lane)
		}
	}
	return w.err
}
