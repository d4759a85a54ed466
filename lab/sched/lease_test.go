package sched

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/brimgo/brim/lab/sched/turn"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

var leaseSubject = &subject{
	name: "lease", night: 150_000,
	passes: []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond},
	random: func(r *rand.Rand) program {
		// ms of a call to the store; units left at first; the fill that fails; bits: it takes
		// effect, two processes
		p := program{config: [4]int{r.IntN(3), r.IntN(12), r.IntN(30), r.IntN(4)}}
		actors := 2 + r.IntN(4)
		for range 4 + r.IntN(6) {
			c := call{actor: r.IntN(actors), do: "fill", amount: 1, leave: pickLeave(r, 20)}
			if r.IntN(4) == 0 {
				c.amount = 1 + r.IntN(3)
			}
			switch r.IntN(30) {
			case 0:
				c.do, c.key = cancels, r.IntN(actors)
			case 1:
				c.do = "drain"
			case 2:
				c.do = "foreign fill"
			case 3:
				c.do = "reset"
			case 4, 5, 6, 7:
				c.do, c.amount = "sleep", [...]int{1, 5, 20, 100}[r.IntN(4)]
			case 8:
				c.do = "close"
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world { return &leaseWorld{program: p, answers: make([]timed, len(p.calls))} },
}

const (
	leaseShare = 0.9
	leaseKey   = "key"
	warmUps    = 10
)

// leaseLimit is so small that some fills reach the capacity, and so large that there are leases.
var leaseLimit = store.Limit{Capacity: 24, LeakRate: 40}

type leaseWorld struct {
	program
	b         []*below // of each process
	s         []store.Store
	before    []leaseFill // of setup
	answers   []timed
	closeErr  error
	closing   bool
	closed    time.Duration // when the leases were closed
	left      float64       // units in the store then
	afterward float64       // units in the store when all must have leaked
}

// leaseFill is a fill and its answer.
type leaseFill struct {
	timed
	amount float64
}

func (f leaseFill) granted() bool { return f.err == nil && f.state.Accepted }

func (w *leaseWorld) op(n int) store.Op {
	return store.Op{Bucket: leaseLimit.For(leaseKey), Amount: float64(n)}
}

// setup has each process ask often, so that it gets an allotment, and then fills the bucket.
func (w *leaseWorld) setup() error {
	b, err := newBelow()
	if err != nil {
		return err
	}
	w.b = []*below{b}
	if w.config[3]&2 != 0 {
		w.b = append(w.b, b.another())
	}
	for _, b := range w.b {
		s, err := local.Leases(b, &local.LeasesOptions{Share: leaseShare, Ahead: 100 * time.Millisecond, MaxBuckets: 64})
		if err != nil {
			return err
		}
		w.s = append(w.s, s)
	}
	ctx := context.Background()
	for range warmUps {
		for p, s := range w.s {
			t := w.b[p].log.time(-1, func() (store.State, error) { return s.Fill(ctx, w.op(1)) })
			w.before = append(w.before, leaseFill{t, 1})
		}
		turn.Sleep("warm up", 5*time.Millisecond)
	}
	room, err := b.Read(ctx, leaseLimit.For(leaseKey))
	if err != nil {
		return err
	}
	if n := int(room[0].Remaining()) - w.config[1]; n > 0 {
		t := b.log.time(-1, func() (store.State, error) { return b.foreign(ctx, w.op(n)) })
		w.before = append(w.before, leaseFill{t, float64(n)})
	}
	for _, b := range w.b {
		b.slow = milliseconds(w.config[0])
	}
	b.fails, b.lost = b.fills+w.config[2], w.config[3]&1 != 0
	return nil
}

func (w *leaseWorld) do(ctx context.Context, i int, c call) {
	p := c.actor % len(w.s)
	w.answers[i] = w.b[p].log.time(i, func() (st store.State, err error) {
		switch c.do {
		case "fill":
			return w.s[p].Fill(ctx, w.op(c.amount))
		case "drain":
			op := w.op(-c.amount)
			op.Mode = store.Always
			return w.s[p].Fill(ctx, op)
		case "foreign fill":
			return w.b[p].foreign(ctx, w.op(c.amount))
		case "reset":
			return st, w.s[p].Delete(ctx, leaseKey)
		case "sleep":
			turn.Sleep("sleep", milliseconds(c.amount))
		case "close":
			w.closing = true
			w.closeErr = errors.Join(w.closeErr, w.s[p].Close())
		}
		return st, nil
	})
}

func (w *leaseWorld) finish() {
	w.closing = true
	for _, s := range w.s {
		w.closeErr = errors.Join(w.closeErr, s.Close())
	}
	w.closed, w.left = turn.Since(), w.level()
	turn.Sleep("all leaks", time.Duration(leaseLimit.Capacity/leaseLimit.LeakRate*1e9))
	w.afterward = w.level()
}

func (w *leaseWorld) level() float64 {
	st, err := w.b[0].Read(context.Background(), leaseLimit.For(leaseKey))
	if err != nil {
		w.closeErr = errors.Join(w.closeErr, err)
		return 0
	}
	return st[0].Level
}

// rounding is more than all rounding of levels in a schedule.
const rounding = 1e-6

func (w *leaseWorld) check(*turn.Schedule) error {
	if w.closeErr != nil {
		return w.closeErr
	}
	fills := slices.Clone(w.before)
	for i, c := range w.calls {
		a := w.answers[i]
		if c.do == cancels {
			continue
		}
		if !a.given {
			return fmt.Errorf("call %d: %w", i, errNoAnswer)
		}
		if c.do == "fill" || c.do == "foreign fill" {
			fills = append(fills, leaseFill{a, float64(c.amount)})
		}
		if errors.Is(a.err, store.ErrClosed) && !w.closing {
			return fmt.Errorf("call %d before Close: %w", i, a.err)
		}
	}
	if err := w.bound(fills); err != nil {
		return err
	}
	if w.afterward > rounding {
		return fmt.Errorf("%v units are in the store although all must have leaked since Close", w.afterward)
	}
	return w.waste(fills)
}

// bound checks that in no window the fills have put in more than the bucket holds and leaks. Units
// that were drained make room, and a reset makes room for all of them and for the allotments.
func (w *leaseWorld) bound(fills []leaseFill) error {
	for _, first := range fills {
		for _, last := range fills {
			from, to := first.begun, last.ended
			if from > to {
				continue
			}
			in := 0.0
			for _, f := range fills {
				if f.granted() && f.begun >= from && f.ended <= to {
					in += f.amount
				}
			}
			most := leaseLimit.Capacity + leaseLimit.LeakRate*(to-from).Seconds()
			for _, e := range w.b[0].log.entries {
				switch {
				case e.at < from || e.at > to:
				case e.deleted:
					most += leaseLimit.Capacity + leaseShare*leaseLimit.Capacity
				case e.op.Amount < 0:
					most -= e.op.Amount
				}
			}
			if in > most+rounding {
				return fmt.Errorf("%v units were granted from %v to %v; the bucket holds and leaks %v", in, from, to, most)
			}
		}
	}
	return nil
}

// waste checks that the store refused units only if those that were served and the share of the
// leases explain it, and that no more than the share was in the store unused when all was closed.
func (w *leaseWorld) waste(fills []leaseFill) error {
	share := leaseShare * leaseLimit.Capacity
	lost := 0.0 // units that may be in the store although their fill failed
	for _, f := range fills {
		if f.err != nil {
			lost += f.amount
		}
	}
	for _, e := range w.b[0].log.entries {
		if e.op.Amount < 0 {
			return nil // an amount that the bucket did not hold drains nothing, which this sum does not know
		}
	}
	for _, f := range fills {
		if f.err != nil || f.state.Accepted {
			continue
		}
		level := mostServed(fills, f.begun, f.ended)
		if level+f.amount+lost <= leaseLimit.Capacity-share-rounding {
			return fmt.Errorf("%v units were refused at %v although only %v were served", f.amount, f.ended, level)
		}
	}
	if level := served(fills, w.closed); w.left > level+lost+share+rounding {
		return fmt.Errorf("%v units are in the store after Close; %v were served", w.left, level)
	}
	return nil
}

// mostServed returns the highest level that the fills can explain at a moment of a call. The level
// rises only when a fill begins or ends.
func mostServed(fills []leaseFill, from, to time.Duration) float64 {
	most := served(fills, from)
	for _, f := range fills {
		for _, at := range []time.Duration{f.begun, f.ended} {
			if at > from && at <= to {
				most = max(most, served(fills, at))
			}
		}
	}
	return most
}

// served returns the highest level that the fills which began before a moment can explain then.
func served(fills []leaseFill, at time.Duration) float64 {
	var before []leaseFill
	for _, f := range fills {
		if f.granted() && f.begun <= at {
			f.ended = min(f.ended, at)
			before = append(before, f)
		}
	}
	slices.SortStableFunc(before, func(a, b leaseFill) int { return int(a.ended - b.ended) })
	level, last := 0.0, time.Duration(0)
	for _, f := range before {
		level = max(0, level-leaseLimit.LeakRate*(f.ended-last).Seconds()) + f.amount
		last = f.ended
	}
	return max(0, level-leaseLimit.LeakRate*(at-last).Seconds())
}
