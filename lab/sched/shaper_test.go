package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

var shaperSubject = &subject{
	name: "shaper",
	random: func(r *rand.Rand) program {
		// MaxWait in ms; ms of a call to the store
		p := program{config: [4]int{4 * r.IntN(3), r.IntN(2)}, pauses: r.Uint64()}
		actors := 2 + r.IntN(4)
		for range 3 + r.IntN(6) {
			c := randomCall(r, actors, "wait", 50)
			c.amount = 1 + r.IntN(4)
			switch r.IntN(20) {
			case 0, 1, 2, 3:
				c.do = "reserve and cancel"
			case 4:
				c.amount += 8
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world { return &shaperWorld{program: p, answers: make([]shaperAnswer, len(p.calls))} },
}

// shaperLimit leaks a unit in a millisecond, so a turn of n units takes n ms.
var shaperLimit = brim.Limit{Capacity: 10, LeakRate: 1000}

type shaperWorld struct {
	program
	b       *below
	s       *brim.Shaper
	answers []shaperAnswer
}

type shaperAnswer struct {
	timed
	turn     time.Duration // of a reservation
	canceled [2]bool       // the answers of two Cancels at once
	deadline time.Duration // of the context; forever if it has none
}

const forever = time.Hour

func (w *shaperWorld) setup() (err error) {
	w.b = newBelow(w.program)
	w.b.slow = milliseconds(w.config[1])
	w.s, err = brim.NewShaper(brim.New(w.b, nil), &brim.ShaperOptions{MaxWait: milliseconds(w.config[0])})
	return err
}

func (w *shaperWorld) do(ctx context.Context, i int, c call) {
	a := &w.answers[i]
	a.deadline = forever
	if at, ok := ctx.Deadline(); ok {
		a.deadline = at.Sub(w.b.start)
	}
	b, n := shaperLimit.For("key"), float64(c.amount)
	w.b.time(&a.timed, func() (st store.State, err error) {
		if c.do == "wait" {
			st, err := w.s.Wait(ctx, b, n)
			var over *brim.OverLimitError
			if errors.As(err, &over) {
				return over.State, nil
			}
			return st, err
		}
		r, err := w.s.Reserve(ctx, b, n)
		if err != nil {
			return st, err
		}
		a.turn = r.Turn().Sub(w.b.start)
		return r.State, cancelTwice(context.WithValue(context.WithoutCancel(ctx), awakeKey{}, true), a, r)
	})
}

// cancelTwice has two goroutines cancel a reservation.
func cancelTwice(ctx context.Context, a *shaperAnswer, r *brim.Reservation) error {
	done := make(chan error)
	for k := range a.canceled {
		go func() {
			var err error
			a.canceled[k], err = r.Cancel(ctx)
			done <- err
		}()
	}
	return errors.Join(<-done, <-done)
}

func (w *shaperWorld) finish() {}

// slot is a reservation of the model.
type slot struct {
	turn, end time.Duration // when the next turn can come
	due       time.Duration // the turn, and the time that the store's answer took
	given     bool
	back      bool // taken back
}

// check replays the reservations and what was taken back in the order in which they took effect.
// The model knows the time at which the last turn ends; it has no level.
func (w *shaperWorld) check() error {
	var busy time.Duration
	slots := make([]slot, len(w.calls))
	for _, e := range w.b.entries {
		i := e.call
		if i < 0 {
			return fmt.Errorf("an amount of nobody: %+v", e.op)
		}
		n := milliseconds(w.calls[i].amount)
		busy = max(busy, e.at)
		if e.op.Amount < 0 { // Cancel
			back := slots[i].given && busy <= slots[i].end
			if back != e.state.Accepted {
				return fmt.Errorf("call %d was taken back: %v; want %v: its turn %v ends at %v, the last one at %v",
					i, e.state.Accepted, back, slots[i].turn, slots[i].end, busy)
			}
			if back {
				slots[i].back, busy = true, max(e.at, busy-n)
			}
			continue
		}
		wait, longest := busy-e.at, forever
		if w.config[0] > 0 {
			longest = milliseconds(w.config[0])
		}
		fits := wait+n <= time.Duration(shaperLimit.Capacity)*time.Millisecond && wait <= longest
		// The time that is left until the deadline was measured when the call began.
		if left := w.answers[i].deadline - w.answers[i].begun; e.state.Accepted != (fits && wait <= left) {
			return fmt.Errorf("call %d was granted: %v, although its wait is %v, with %v to its deadline",
				i, e.state.Accepted, wait, left)
		}
		if e.state.Accepted {
			slots[i] = slot{turn: busy, end: busy + n, due: busy + e.answered - e.at, given: true}
			busy += n
		}
	}
	for i := range w.calls {
		if err := w.answered(i, slots[i]); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	return nil
}

// answered compares an answer with the model's slot.
func (w *shaperWorld) answered(i int, sl slot) error {
	a := w.answers[i]
	switch {
	case a.err != nil && !ended(a.err):
		return a.err
	case a.err == nil && a.state.Accepted != sl.given:
		return fmt.Errorf("accepted: %v; the store answered %v", a.state.Accepted, sl.given)
	case w.calls[i].do == "reserve and cancel":
		if sl.given && a.turn != sl.turn && a.err == nil {
			return fmt.Errorf("its turn is %v; want %v", a.turn, sl.turn)
		}
		if a.canceled[0] && a.canceled[1] || sl.back != (a.canceled[0] || a.canceled[1]) {
			return fmt.Errorf("Cancel answered %v; the store took it back: %v", a.canceled, sl.back)
		}
	case !sl.given:
	case a.err == nil && a.ended != sl.due:
		return fmt.Errorf("went on at %v; its turn is due at %v", a.ended, sl.due)
	case a.err == nil && sl.back:
		return errors.New("went on although its slot was taken back")
	case ended(a.err) && a.ended < sl.turn && !w.gaveBack(i):
		return fmt.Errorf("left at %v before its turn %v, and nobody tried to take its slot back", a.ended, sl.turn)
	}
	return nil
}

// gaveBack reports whether a call asked the store to take its units out.
func (w *shaperWorld) gaveBack(i int) bool {
	entries := w.b.of(i)
	return len(entries) > 1 && entries[len(entries)-1].op.Amount < 0
}
