package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/sched/turn"
	"github.com/brimgo/brim/store"
)

var relaxedSubject = &subject{
	name: "relaxed", night: 150_000, passes: []time.Duration{time.Millisecond, 5 * time.Millisecond},
	random: func(r *rand.Rand) program {
		// the window in ms; 1: few buckets stay in memory; 0: look at the file in the end
		p := program{config: [4]int{1 + r.IntN(4), r.IntN(2), r.IntN(4)}}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(6) {
			c := call{actor: r.IntN(actors), do: "op", leave: pickLeave(r, 20), op: randomOp(r)}
			switch r.IntN(20) {
			case 0, 1:
				c = call{actor: c.actor, do: cancels, key: r.IntN(actors)}
			case 2:
				c = call{actor: c.actor, do: "close"}
			case 3, 4, 5: // the store writes when a window has passed
				c = call{actor: c.actor, do: "sleep", amount: 1 + r.IntN(5)}
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world {
		return &relaxedWorld{ordered: newOrdered(p)}
	},
}

// relaxedKeys is the number of buckets. They share two sections.
const relaxedKeys = 3

func randomOp(r *rand.Rand) history.Op {
	move := func() history.Move {
		m := history.Move{Key: r.IntN(relaxedKeys), Amount: float64(1 + r.IntN(14)), Mode: store.Mode(r.IntN(3))}
		if r.IntN(4) == 0 {
			m.Hold = float64(r.IntN(7) - 3)
			m.Mode = store.Always
		}
		return m
	}
	switch n := r.IntN(20); {
	case n < 9:
		return history.Op{Kind: history.Fill, Txns: [][]history.Move{{move()}}}
	case n < 13:
		a, b := move(), move()
		b.Key = (a.Key + 1 + r.IntN(relaxedKeys-1)) % relaxedKeys
		for _, m := range []*history.Move{&a, &b} {
			if m.Mode == store.Clamp { // spilling is told of a single fill only
				m.Mode = store.IfFits
			}
		}
		return history.Op{Kind: history.Apply, Txns: [][]history.Move{{a, b}}}
	case n < 15:
		return history.Op{Kind: history.Delete, Keys: []int{r.IntN(relaxedKeys)}}
	case n < 16:
		return history.Op{Kind: history.Prune}
	case n < 17:
		return history.Op{Kind: history.Tick, Seconds: 1 + r.IntN(3)}
	}
	return history.Op{Kind: history.Sync}
}

// ordered compares the answers of a store with those of the exact model, which takes the calls in
// the order in which they took effect: in which they read the store's clock under a lock.
type ordered struct {
	program
	seconds int
	doing   map[int]int // by goroutine: the index of its call
	order   []effect
	answers []*history.Answer
}

// effect is the moment at which a call took effect.
type effect struct{ call, seconds int }

func newOrdered(p program) *ordered {
	return &ordered{program: p, doing: make(map[int]int), answers: make([]*history.Answer, len(p.calls))}
}

// clock is the store's clock.
func (w *ordered) clock() time.Time {
	turn.Mark("clock")
	return history.At(w.seconds)
}

// watch notes the first effect of each call.
func (w *ordered) watch(site string) {
	i, ok := w.doing[turn.Current()]
	if !ok || site != "clock" && !strings.HasPrefix(site, "relaxed.go:Delete:") {
		return
	}
	if kind := w.calls[i].op.Kind; (kind == history.Delete) == (site == "clock") {
		return // a Delete reads no clock
	}
	for _, e := range w.order {
		if e.call == i {
			return
		}
	}
	w.order = append(w.order, effect{i, w.seconds})
}

// carryOut carries out the i-th call.
func (w *ordered) carryOut(ctx context.Context, s store.Store, i int) {
	op := w.calls[i].op
	if op.Kind == history.Tick {
		turn.Point("tick")
		w.seconds += op.Seconds
		w.answers[i] = &history.Answer{}
		return
	}
	g := turn.Current()
	w.doing[g] = i
	a := history.Call(ctx, s, op)
	delete(w.doing, g)
	w.answers[i] = &a
}

// judge returns the model after all calls.
func (w *ordered) judge() (m history.Model, err error) {
	took := make([]bool, len(w.calls))
	for _, e := range w.order {
		took[e.call] = true
		op, got := w.calls[e.call].op, w.answers[e.call]
		switch {
		case got == nil:
			return m, fmt.Errorf("call %d: %w", e.call, errNoAnswer)
		case op.Kind == history.Prune, op.Kind == history.Sync, got.Err != "":
			continue
		}
		m, _ = m.Next(history.Op{Kind: history.Tick, Seconds: e.seconds - m.Seconds()})
		var want history.Answer
		if m, want = m.Next(op); !got.Agrees(want) {
			return m, fmt.Errorf("call %d (%v) answered %+v; want %+v", e.call, op, *got, want)
		}
	}
	for i, c := range w.calls {
		switch kind := c.op.Kind; {
		case c.do != "op", kind == history.Tick, kind == history.Prune, kind == history.Sync:
		case w.answers[i] == nil:
			return m, fmt.Errorf("call %d: %w", i, errNoAnswer)
		case w.answers[i].Err == "" && !took[i]:
			return m, fmt.Errorf("call %d (%v) answered %+v and took no effect", i, c.op, *w.answers[i])
		}
	}
	return m, nil
}

type relaxedWorld struct {
	*ordered
	s      *bolt.Relaxed
	closed error
}

func (w *relaxedWorld) setup() (err error) {
	path := history.Path(scratch)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if emptyFile != nil { // making a file takes longer than the schedule
		if err := os.WriteFile(path, emptyFile, 0o600); err != nil {
			return err
		}
	}
	o := &bolt.Options{
		Clock: w.clock, LockTimeout: -1, NoVerify: true, Cached: w.config[1],
		RelaxedWindow: time.Duration(w.config[0]) * time.Millisecond,
	}
	if w.s, err = bolt.OpenRelaxed(path, o); err != nil {
		return err
	}
	if emptyFile == nil {
		if emptyFile, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	turn.Watch(w.watch)
	return nil
}

// scratch is the directory of the file, and emptyFile the content of a new one.
var (
	scratch   string
	emptyFile []byte
)

func (w *relaxedWorld) do(ctx context.Context, i int, c call) {
	switch c.do {
	case "close":
		w.closed = errors.Join(w.closed, w.s.Close())
	case "sleep":
		turn.Sleep("sleep", milliseconds(c.amount))
	default:
		w.carryOut(ctx, w.s, i)
	}
}

func (w *relaxedWorld) finish() { w.closed = errors.Join(w.closed, w.s.Close()) }

func (w *relaxedWorld) check(*turn.Schedule) error {
	m, err := w.judge()
	if err = errors.Join(err, w.closed); err != nil {
		return err
	}
	if w.config[2] > 0 {
		return nil
	}
	content, err := history.Look(scratch, history.Relaxed, w.seconds)
	if err == nil && !history.Holds([]history.Model{m}, w.seconds, content) {
		err = fmt.Errorf("the file holds %v after Close; want %v", content, m.At(w.seconds))
	}
	return err
}
