package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/lab/sched/turn"
	"github.com/brimgo/brim/queue"
	"github.com/brimgo/brim/store"
)

var queueSubject = &subject{
	name: "queue", night: 125_000, passes: []time.Duration{time.Millisecond, 3 * time.Millisecond},
	random: func(r *rand.Rand) program {
		// 1: Put waits for room; ms of a release
		p := program{config: [4]int{r.IntN(2), r.IntN(4)}}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(6) {
			c := call{actor: r.IntN(actors), do: "put", amount: r.IntN(3), leave: pickLeave(r, 40)}
			switch r.IntN(20) {
			case 0, 1:
				c.do, c.key = cancels, r.IntN(actors)
			case 2:
				c.do = "close"
			case 3:
				c.do = "abandon"
			case 4, 5:
				c.do = "sleep"
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &queueWorld{
			program: p, doing: make(map[int]int), answers: make([]queueAnswer, len(p.calls)),
			expected: make([]queueAnswer, len(p.calls)), arrived: make([]time.Duration, len(p.calls)),
			left: make(map[int][]int), modelLeft: make(map[int][]int),
		}
	},
}

// queueLimit releases a unit in a millisecond.
var queueLimit = store.Limit{Capacity: 3, LeakRate: 1000}

// queueWorld runs a model of the queue in step with it: at each moment at which a goroutine locks
// the queue, the model does what the goroutine does. An item is the index of its call.
type queueWorld struct {
	program
	q        *queue.Queue[int]
	doing    map[int]int // by goroutine: the index of its call
	answers  []queueAnswer
	expected []queueAnswer
	left     map[int][]int // by call: what Abandon returned
	releases []release
	err      error

	// The model.
	items, waiting []int
	closed         bool
	popped         []int // the item that the worker took and has not released yet
	arrived        []time.Duration
	modelLeft      map[int][]int
}

type queueAnswer struct {
	given bool
	err   error
}

type release struct {
	item       int
	begun, end time.Duration
}

const abandonInTheEnd = -1 // the call of finish

func (w *queueWorld) wrong(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *queueWorld) setup() (err error) {
	o := &queue.Options[int]{
		Block: w.config[0] == 1,
		Cost:  func(i int) float64 { return float64(w.calls[i].amount) },
	}
	turn.Watch(w.watch)
	w.q, err = queue.New(queueLimit, w.release, o)
	return err
}

func (w *queueWorld) release(_ context.Context, i int) {
	if len(w.popped) != 1 || w.popped[0] != i {
		w.wrong("item %d was released; the queue holds %v, and %v was taken from it", i, w.items, w.popped)
	}
	w.popped = nil
	r := release{item: i, begun: turn.Since()}
	turn.Point("release")
	if w.config[1] > 0 {
		turn.Sleep("slow release", milliseconds(w.config[1]))
	}
	r.end = turn.Since()
	w.releases = append(w.releases, r)
}

// watch does in the model what a goroutine does that locks the queue.
func (w *queueWorld) watch(site string) {
	i, ok := w.doing[turn.Current()]
	if !ok {
		i = abandonInTheEnd
	}
	switch fn := strings.Split(site, ":"); fn[1] {
	case "Put":
		w.put(i)
	case "withdraw":
		if k := slices.Index(w.waiting, i); k >= 0 {
			w.waiting = slices.Delete(w.waiting, k, k+1)
			w.expected[i].err = context.Canceled // stands for both errors of contexts
			w.admit()
		}
	case "refuse":
		w.closed = true
		for _, k := range w.waiting {
			w.expected[k].err = queue.ErrClosed
		}
		w.waiting = nil
	case "pop":
		if len(w.items) > 0 {
			w.popped = append(w.popped, w.items[0])
			w.items = w.items[1:]
			w.admit()
		}
	case "Abandon":
		if len(w.popped) > 0 { // the worker saw that the queue was abandoned, and put nothing back
			w.items = append(w.popped, w.items...)
			w.popped = nil
		}
		w.modelLeft[i], w.items = append(w.modelLeft[i], w.items...), nil
	}
}

func (w *queueWorld) put(i int) {
	switch {
	case w.closed:
		w.expected[i].err = queue.ErrClosed
	case len(w.waiting) == 0 && w.fits(i):
		w.push(i)
	case w.config[0] == 0:
		w.expected[i].err = queue.ErrFull
	default:
		w.waiting = append(w.waiting, i)
	}
}

func (w *queueWorld) fits(i int) bool {
	level := w.calls[i].amount
	for _, k := range w.items {
		level += w.calls[k].amount
	}
	return len(w.items) == 0 || float64(level) <= queueLimit.Capacity
}

func (w *queueWorld) push(i int) {
	w.items = append(w.items, i)
	w.arrived[i] = turn.Since()
}

func (w *queueWorld) admit() {
	for len(w.waiting) > 0 && w.fits(w.waiting[0]) {
		w.push(w.waiting[0])
		w.waiting = w.waiting[1:]
	}
}

func (w *queueWorld) do(ctx context.Context, i int, c call) {
	a := &w.answers[i]
	g := turn.Current()
	w.doing[g] = i
	switch c.do {
	case "put":
		if ctx.Err() != nil {
			w.expected[i].err = context.Canceled
		}
		a.err = w.q.Put(ctx, i)
	case "close":
		a.err = w.q.Close(ctx)
		if a.err != nil && ctx.Err() == nil {
			w.wrong("Close returned %v", a.err)
		}
	case "abandon":
		w.left[i] = w.q.Abandon()
	case "sleep":
		turn.Sleep("sleep", milliseconds(c.amount))
	}
	a.given = true
	delete(w.doing, g)
}

func (w *queueWorld) finish() {
	if err := w.q.Close(context.Background()); err != nil {
		w.wrong("the last Close returned %v", err)
	}
	w.left[abandonInTheEnd] = w.q.Abandon()
}

func (w *queueWorld) check(s *turn.Schedule) error {
	for i, c := range w.calls {
		got, want := w.answers[i], w.expected[i]
		switch {
		case c.do == cancels:
		case !got.given:
			w.wrong("call %d: %w", i, errNoAnswer)
		case c.do != "put":
		case errors.Is(want.err, context.Canceled):
			if !errors.Is(got.err, context.Canceled) && !errors.Is(got.err, context.DeadlineExceeded) {
				w.wrong("call %d got %v; its context had ended", i, got.err)
			}
		case !errors.Is(got.err, want.err):
			w.wrong("call %d got %v; want %v", i, got.err, want.err)
		}
	}
	for i, left := range w.left {
		if !slices.Equal(left, w.modelLeft[i]) {
			w.wrong("Abandon returned %v; want %v", left, w.modelLeft[i])
		}
	}
	if w.err == nil {
		w.err = w.turns(s.Plan.Passing == 0)
	}
	return w.err
}

// turns checks that no item was released before its turn, and, if exact is true, that none was
// released later either.
func (w *queueWorld) turns(exact bool) error {
	var earliest, spacing, free time.Duration
	for k, r := range w.releases {
		due := max(earliest, w.arrived[r.item])
		if r.begun < due {
			return fmt.Errorf("item %d was released at %v, before %v", r.item, r.begun, due)
		}
		now := max(free, w.arrived[r.item])
		late := k > 0 && now-due > spacing
		if late {
			due = now
		}
		if exact && r.begun != max(due, now) {
			return fmt.Errorf("item %d was released at %v; want %v", r.item, r.begun, max(due, now))
		}
		spacing = milliseconds(w.calls[r.item].amount)
		if late && !exact {
			due = max(earliest, w.arrived[r.item]) // time may have passed since the worker looked at its clock
		}
		earliest, free = due+spacing, r.end
	}
	return nil
}
