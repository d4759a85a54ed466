package sched

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/queue"
	"github.com/brimgo/brim/store"
)

var queueSubject = &subject{
	name: "queue", night: 125_000,
	random: func(r *rand.Rand) program {
		// 1: Put waits for room; ms of a release
		p := program{config: [4]int{r.IntN(2), r.IntN(4)}}
		actors := 2 + r.IntN(5)
		for range 3 + r.IntN(8) {
			c := randomCall(r, actors, "put", 40)
			c.amount = r.IntN(4)
			switch r.IntN(20) {
			case 0:
				c.do = "close"
			case 1:
				c.do = "abandon"
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &queueWorld{
			program: p, answers: make([]queueAnswer, len(p.calls)+1), end: make(chan struct{}),
			fillLog: &fillLog{start: time.Now()},
		}
	},
}

// queueLimit releases a unit in a millisecond.
var queueLimit = store.Limit{Capacity: 3, LeakRate: 1000}

// queueWorld checks all that it sees of the queue. An item is the index of its call.
type queueWorld struct {
	program
	*fillLog
	verdict
	q        *queue.Queue[int]
	answers  []queueAnswer // by call; the last is that of finish
	releases []release
	end      chan struct{}
}

type queueAnswer struct {
	timed
	over bool  // the context had ended
	left []int // that Abandon returned
}

type release struct {
	item       int
	begun, end time.Duration
}

func (w *queueWorld) setup() (err error) {
	o := &queue.Options[int]{Block: w.config[0] == 1, Cost: func(i int) float64 { return float64(w.calls[i].amount) }}
	if w.q, err = queue.New(queueLimit, w.release, o); err == nil {
		go w.watch()
	}
	return err
}

func (w *queueWorld) release(_ context.Context, i int) {
	w.mu.Lock()
	n := len(w.releases)
	w.releases = append(w.releases, release{item: i, begun: w.since()})
	w.mu.Unlock()
	runtime.Gosched()
	time.Sleep(milliseconds(w.config[1]))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releases[n].end = w.since()
}

func (w *queueWorld) do(ctx context.Context, i int, c call) {
	a := &w.answers[i]
	w.time(&a.timed, func() (st store.State, err error) {
		switch c.do {
		case "put":
			err = w.q.Put(ctx, i)
		case "close":
			err = w.q.Close(ctx)
		default:
			w.abandon(a)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		a.over = ctx.Err() != nil
		return st, err
	})
}

func (w *queueWorld) finish() {
	a := &w.answers[len(w.calls)]
	w.time(&a.timed, func() (st store.State, err error) { return st, w.q.Close(context.Background()) })
	w.abandon(a)
	close(w.end)
}

func (w *queueWorld) abandon(a *queueAnswer) {
	left := w.q.Abandon()
	w.mu.Lock()
	defer w.mu.Unlock()
	a.left = left
}

// watch looks often at the queue when nothing goes on.
func (w *queueWorld) watch() {
	for {
		select {
		case <-time.After(500*time.Microsecond + 1):
			synctest.Wait()
			w.look()
		case <-w.end:
			return
		}
	}
}

// look checks that the items fit into the queue, and that not all of the Puts that wait would fit.
func (w *queueWorld) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	items, level := w.items(w.since(), w.since()+1)
	if items > 1 && level > queueLimit.Capacity {
		w.wrong("at %v, %d items of %v units are in the queue", w.since(), items, level)
	}
	waiting, fit := 0, 0
	for i, a := range w.answers[:len(w.calls)] {
		if w.calls[i].do == "put" && a.first > 0 && !a.given {
			waiting++
			if items == 0 || level+float64(w.calls[i].amount) <= queueLimit.Capacity {
				fit++
			}
		}
	}
	if waiting > 0 && fit == waiting {
		w.wrong("at %v, %d calls wait although %d items of %v units leave room for them", w.since(), waiting, items, level)
	}
}

// items returns the number and the level of the items that had come by a time and that nobody had
// taken before another.
func (w *queueWorld) items(come, taken time.Duration) (n int, level float64) {
	gone := make(map[int]bool)
	for _, r := range w.releases {
		gone[r.item] = r.begun < taken
	}
	for _, a := range w.answers {
		for _, i := range a.left {
			gone[i] = a.ended < taken
		}
	}
	for i, a := range w.answers[:len(w.calls)] {
		if w.accepted(i) && a.ended <= come && !gone[i] {
			n, level = n+1, level+float64(w.calls[i].amount)
		}
	}
	return n, level
}

// accepted reports whether a call has put its item into the queue.
func (w *queueWorld) accepted(i int) bool {
	return w.calls[i].do == "put" && w.answers[i].given && w.answers[i].err == nil
}

func (w *queueWorld) check() error {
	var out []int // all items, in the order in which they left the queue
	for _, r := range w.releases {
		out = append(out, r.item)
	}
	for _, a := range w.answers {
		out = append(out, a.left...)
	}
	for i, c := range w.calls {
		if c.do == "put" {
			w.put(i, out)
		} else if a := w.answers[i]; a.err != nil && !a.over {
			w.wrong("call %d, a Close, returned %v", i, a.err)
		}
	}
	if last := w.answers[len(w.calls)]; last.err != nil {
		w.wrong("the last Close returned %v", last.err)
	}
	w.turns()
	return w.err
}

// put checks the answer of a Put, and its item's place among those that left the queue.
func (w *queueWorld) put(i int, out []int) {
	a := w.answers[i]
	closing, closed := false, false // a call may have closed the queue, or must have
	for k, end := range w.answers {
		if k == len(w.calls) || w.calls[k].do != "put" {
			closing = closing || end.first < a.last
			closed = closed || end.begun < a.begun || end.last < a.first
		}
	}
	times := 0
	for _, k := range out {
		if k == i {
			times++
		}
	}
	switch items, level := w.items(a.begun, a.begun); {
	case w.accepted(i) && times != 1, !w.accepted(i) && times != 0:
		w.wrong("call %d got %v, and its item left the queue %d times", i, a.err, times)
	case closed && !a.over && !errors.Is(a.err, queue.ErrClosed), errors.Is(a.err, queue.ErrClosed) && !closing:
		w.wrong("call %d got %v; the queue may be closed: %v, and must be: %v", i, a.err, closing, closed)
	case ended(a.err) && !a.over:
		w.wrong("call %d got %v; its context had not ended", i, a.err)
	case errors.Is(a.err, queue.ErrFull) && (w.config[0] == 1 || level+float64(w.calls[i].amount) <= queueLimit.Capacity):
		w.wrong("call %d got %v beside %d items of %v units", i, a.err, items, level)
	}
	if times != 1 {
		return
	}
	for _, k := range out[:slices.Index(out, i)] {
		if b := w.answers[k]; a.begun < b.begun || a.last < b.first {
			w.wrong("item %d left the queue before item %d, which had come earlier", k, i)
		}
	}
}

// turns checks that each item was released at its turn.
func (w *queueWorld) turns() {
	var earliest, spacing, free time.Duration
	for k, r := range w.releases {
		arrived := w.answers[r.item].ended
		due, now := max(earliest, arrived), max(free, arrived)
		if k > 0 && now-due > spacing {
			due = now
		}
		if want := max(due, now); r.begun != want {
			w.wrong("item %d was released at %v; want %v", r.item, r.begun, want)
		}
		spacing = milliseconds(w.calls[r.item].amount)
		earliest, free = due+spacing, r.end
	}
}
