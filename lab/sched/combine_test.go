package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/lab/sched/turn"
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
	name: "combine", night: 250_000, passes: []time.Duration{time.Millisecond},
	random: func(r *rand.Rand) program {
		// lanes; least batch; largest batch; bits: Cut, Before, a slow flush
		p := program{config: [4]int{1 + r.IntN(3), 1 + r.IntN(2), r.IntN(4), r.IntN(8)}}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(6) {
			c := call{actor: r.IntN(actors), do: "do", key: r.IntN(3), leave: pickLeave(r, 40)}
			switch r.IntN(20) {
			case 0, 1, 2:
				c.do, c.key = cancels, r.IntN(actors)
			case 3:
				c.do = "close"
			case 4, 5, 6:
				c.amount = r.IntN(fates)
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &combineWorld{
			program: p, answers: make([]combineAnswer, len(p.calls)), written: make([]int, len(p.calls)),
			contexts: make([]context.Context, len(p.calls)), postponed: make([]bool, len(p.calls)),
			flights: make([][]int, p.config[0]), cut: make([]bool, p.config[0]),
		}
	},
}

// combineWorld counts for each key how many requests a flush has decided. A request is answered
// with the count.
type combineWorld struct {
	program
	c         *combine.Combiner[int, int]
	err       error
	counts    [3]int
	deciding  [3]bool // a flush has read the count and will write it
	written   []int   // by call: how often a flush wrote it
	postponed []bool
	answers   []combineAnswer
	contexts  []context.Context // of the calls
	flights   [][]int           // by lane: the calls of the flush in flight
	before    []int             // lanes between Before and After
	cut       []bool
	closing   bool
	closed    bool
}

type combineAnswer struct {
	given bool
	out   int
	err   error
	done  bool // its context had ended
	late  bool // it began after Close had returned
	drew  int  // the count that its flush wrote
}

var errFate = errors.New("the request's own error")

func (w *combineWorld) wrong(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *combineWorld) setup() (err error) {
	o := &combine.Options{Lanes: w.config[0], MinBatch: w.config[1], MaxBatch: w.config[2]}
	if w.config[3]&1 != 0 {
		o.Cut = w.cutLane
	}
	if w.config[3]&2 != 0 {
		o.Before = func(lane int) error { w.before = append(w.before, lane); turn.Point("before"); return nil }
		o.After = w.after
	}
	w.c, err = combine.New(w.flush, o)
	return err
}

func (w *combineWorld) after(lane int) {
	turn.Point("after")
	for i, l := range w.before {
		if l == lane {
			w.before = append(w.before[:i], w.before[i+1:]...)
			return
		}
	}
	w.wrong("After of lane %d without a Before", lane)
}

// cutLane is told to end the flush of a caller whose context has ended.
func (w *combineWorld) cutLane(lane int) {
	w.cut[lane] = true
	for _, i := range w.flights[lane] {
		if w.contexts[i].Err() == nil {
			w.wrong("Cut ends the flush of call %d, whose context has not ended", i)
		}
	}
}

func (w *combineWorld) flush(lane int, batch []*combine.Request[int, int]) {
	switch most := w.config[2]; {
	case w.flights[lane] != nil:
		w.wrong("two flushes of lane %d at once", lane)
	case len(batch) == 0, most > 0 && len(batch) > most:
		w.wrong("a batch of %d requests; the most is %d", len(batch), most)
	case w.closed:
		w.wrong("a flush after Close has returned")
	}
	defer func() { w.flights[lane], w.cut[lane] = nil, false }()
	for _, r := range batch {
		w.flights[lane] = append(w.flights[lane], r.In)
	}
	var keys [3]bool
	for _, r := range batch {
		key := w.calls[r.In].key
		if w.deciding[key] && !keys[key] {
			w.wrong("two flushes decide key %d at once", key)
		}
		w.deciding[key], keys[key] = true, true
	}
	defer func() {
		for key, mine := range keys {
			w.deciding[key] = w.deciding[key] && !mine
		}
	}()
	counts := w.counts // decided now and written later, so a flush between the two loses an update
	if w.config[3]&4 != 0 {
		turn.Sleep("slow flush", time.Millisecond)
	}
	turn.Point("between decide and write")
	for _, r := range batch {
		c := w.calls[r.In]
		switch {
		case w.cut[lane]:
			r.Err = store.ErrUnavailable // nothing was done
		case c.amount == fateRefused:
			r.Err = errFate
		case c.amount == fatePanic:
			panic("a flush that fails")
		case c.amount == fatePostponed && !w.postponed[r.In] && len(batch) > 1 && r != batch[0]:
			w.postponed[r.In] = true
			r.Postpone()
		default:
			counts[c.key]++
			w.written[r.In]++
			w.answers[r.In].drew = counts[c.key]
			r.Out = counts[c.key]
		}
		w.counts[c.key] = counts[c.key]
	}
	turn.Point("flushed")
}

func (w *combineWorld) do(ctx context.Context, i int, c call) {
	if c.do == "close" {
		w.close()
		return
	}
	a := &w.answers[i]
	a.late, w.contexts[i] = w.closed, ctx
	a.out, a.err = w.c.Do(ctx, uint64(c.key), i)
	a.given, a.done = true, ctx.Err() != nil
	if a.err == nil && (w.written[i] != 1 || a.out != a.drew) {
		w.wrong("call %d got %d; a flush answered %d, %d times", i, a.out, a.drew, w.written[i])
	}
}

func (w *combineWorld) close() {
	w.closing = true
	w.c.Close()
	w.closed = true
	for lane, flight := range w.flights {
		if flight != nil {
			w.wrong("Close returned during a flush of lane %d", lane)
		}
	}
}

func (w *combineWorld) finish() { w.close() }

func (w *combineWorld) check(*turn.Schedule) error {
	total := 0
	for i, a := range w.answers {
		if w.calls[i].do != "do" {
			continue
		}
		total += w.written[i]
		ended := errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded)
		switch n := w.written[i]; {
		case !a.given:
			w.wrong("call %d: %w", i, errNoAnswer)
		case n > 1:
			w.wrong("call %d was flushed %d times", i, n)
		case a.late && !errors.Is(a.err, store.ErrClosed) && !ended:
			w.wrong("call %d came after Close and got %v", i, a.err)
		case errors.Is(a.err, store.ErrClosed) && !w.closing:
			w.wrong("call %d got %v before Close", i, a.err)
		case a.err != nil && !errors.Is(a.err, store.ErrUnknownOutcome) && n != 0:
			w.wrong("call %d was flushed although it got %v", i, a.err)
		case ended && !a.done:
			w.wrong("call %d got %v although its context had not ended", i, a.err)
		}
	}
	sum := 0
	for _, n := range w.counts {
		sum += n
	}
	if sum != total {
		w.wrong("%d requests were flushed and %d were counted: an update was lost", total, sum)
	}
	if len(w.before) > 0 {
		w.wrong("lanes %v had a Before without an After", w.before)
	}
	return w.err
}
