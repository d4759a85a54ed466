package sched

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

var leaseSubject = &subject{
	name: "lease",
	random: func(r *rand.Rand) program {
		// ms of a call to the store; units left at first; the fill that fails; bits: it takes
		// effect, two processes
		p := program{config: [4]int{r.IntN(3), r.IntN(100), r.IntN(60), r.IntN(4)}, pauses: r.Uint64()}
		actors := 2 + r.IntN(4)
		for range 4 + r.IntN(6) {
			c := randomCall(r, actors, "fill", 20)
			c.key = 1 + r.IntN(40)
			if r.IntN(4) == 0 {
				c.pause = moment(r, 100)
			}
			switch r.IntN(30) {
			case 0:
				c.do = "drain"
			case 1:
				c.do = "foreign fill"
			case 2:
				c.do = "reset"
			case 3:
				c.do = "close"
			case 4, 5, 6, 7, 8:
				c.amount = 1 + r.IntN(3)
			}
			c.amount++
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world { return &leaseWorld{program: p} },
}

const (
	leaseShare = 0.9
	leaseKey   = "key"
	warmUps    = 10
)

// leaseLimit is so small that fills reach the capacity, and so large that there are leases.
var leaseLimit = store.Limit{Capacity: 100, LeakRate: 200}

type leaseWorld struct {
	program
	b         *below
	s         []store.Store // of each process
	mu        sync.Mutex
	fills     []leaseFill
	closing   bool
	err       error
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

// setup has each process ask often, so that it gets an allotment, and then fills the bucket.
func (w *leaseWorld) setup() (err error) {
	w.b = newBelow(w.program)
	below := []*below{w.b}
	if w.config[3]&2 != 0 {
		below = append(below, w.b.another())
	}
	for _, b := range below {
		s, err := local.Leases(b, &local.LeasesOptions{Share: leaseShare, Ahead: 100 * time.Millisecond, MaxBuckets: 64})
		if err != nil {
			return err
		}
		w.s = append(w.s, s)
	}
	ctx := context.Background()
	for range warmUps {
		for _, s := range w.s {
			w.fill(ctx, s.Fill, 1)
		}
		time.Sleep(5 * time.Millisecond)
	}
	room, err := w.b.Read(ctx, leaseLimit.For(leaseKey))
	if err != nil {
		return err
	}
	if n := int(room[0].Remaining()) - w.config[1]; n > 0 {
		w.fill(ctx, w.b.foreign, n)
	}
	for _, b := range below {
		b.slow = milliseconds(w.config[0])
		b.fails, b.lost = b.fills+w.config[2], w.config[3]&1 != 0
	}
	return nil
}

// fill fills the bucket with n units and takes note of the answer.
func (w *leaseWorld) fill(ctx context.Context, fill func(context.Context, store.Op) (store.State, error), n int) bool {
	f := leaseFill{amount: float64(n)}
	w.b.time(&f.timed, func() (store.State, error) {
		return fill(ctx, store.Op{Bucket: leaseLimit.For(leaseKey), Amount: f.amount})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fills = append(w.fills, f)
	if errors.Is(f.err, store.ErrClosed) && !w.closing {
		w.err = fmt.Errorf("%w before Close", f.err)
	}
	return f.granted()
}

func (w *leaseWorld) do(ctx context.Context, _ int, c call) {
	s := w.s[c.actor%len(w.s)]
	switch c.do {
	case "fill": // so often, one after the other
		for n := 0; n < c.key && w.fill(ctx, s.Fill, c.amount); n++ {
		}
	case "foreign fill":
		w.fill(ctx, w.b.foreign, c.amount)
	case "drain":
		op := store.Op{Bucket: leaseLimit.For(leaseKey), Amount: -float64(c.amount), Mode: store.Always}
		_, _ = s.Fill(ctx, op) // the log tells whether it took effect
	case "reset":
		_ = s.Delete(ctx, leaseKey)
	case "close":
		w.close(s)
	}
}

func (w *leaseWorld) close(s store.Store) {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	err := s.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

func (w *leaseWorld) finish() {
	for _, s := range w.s {
		w.close(s)
	}
	w.closed, w.left = w.b.since(), w.level()
	time.Sleep(time.Duration(leaseLimit.Capacity / leaseLimit.LeakRate * 1e9))
	w.afterward = w.level()
}

func (w *leaseWorld) level() float64 {
	st, err := w.b.Read(context.Background(), leaseLimit.For(leaseKey))
	if err != nil {
		w.err = errors.Join(w.err, err)
		return 0
	}
	return st[0].Level
}

// rounding is more than all rounding of levels in a schedule.
const rounding = 1e-6

func (w *leaseWorld) check() error {
	switch {
	case w.err != nil:
		return w.err
	case w.afterward > rounding:
		return fmt.Errorf("%v units are in the store although all must have leaked since Close", w.afterward)
	}
	// The level rises only when a fill begins or ends.
	var moments []time.Duration
	for _, f := range w.fills {
		moments = append(moments, f.begun, f.ended)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	slices.SortStableFunc(w.fills, func(a, b leaseFill) int { return cmp.Compare(a.ended, b.ended) })
	return errors.Join(w.bound(moments), w.waste(moments))
}

// bound checks that in no window the fills have put in more than the bucket holds and leaks. Units
// that were drained make room, and a reset makes room for all of them. The allotments of the other
// process outlive both.
func (w *leaseWorld) bound(moments []time.Duration) error {
	for i, from := range moments {
		for _, to := range moments[i:] {
			in := 0.0
			for _, f := range w.fills {
				if f.granted() && f.begun >= from && f.ended <= to {
					in += f.amount
				}
			}
			most := leaseLimit.Capacity + leaseLimit.LeakRate*(to-from).Seconds()
			for _, e := range w.b.entries {
				switch {
				case e.at > to:
				case e.deleted && e.at >= from:
					most += leaseLimit.Capacity + leaseShare*leaseLimit.Capacity
				case e.deleted:
					most += leaseShare * leaseLimit.Capacity
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
func (w *leaseWorld) waste(moments []time.Duration) error {
	for _, e := range w.b.entries {
		if e.op.Amount < 0 {
			return nil // an amount that the bucket did not hold drains nothing, which this sum does not know
		}
	}
	share := leaseShare * leaseLimit.Capacity
	lost := 0.0 // units that may be in the store although their fill failed
	for _, f := range w.fills {
		if f.err != nil {
			lost += f.amount
		}
	}
	levels := make([]float64, len(moments))
	for i, at := range moments {
		levels[i] = w.served(at)
	}
	for _, f := range w.fills {
		if f.err != nil || f.state.Accepted {
			continue
		}
		level := 0.0 // the highest during the call
		for i, at := range moments {
			if at >= f.begun && at <= f.ended {
				level = max(level, levels[i])
			}
		}
		if level+f.amount+lost <= leaseLimit.Capacity-share-rounding {
			return fmt.Errorf("%v units were refused at %v although only %v were served", f.amount, f.ended, level)
		}
	}
	if level := w.served(w.closed); w.left > level+lost+share+rounding {
		return fmt.Errorf("%v units are in the store after Close; %v were served", w.left, level)
	}
	return nil
}

// served returns the highest level that the fills which began before a moment can explain then. The
// fills are in the order of their ends.
func (w *leaseWorld) served(at time.Duration) float64 {
	level, last := 0.0, time.Duration(0)
	for _, f := range w.fills {
		if f.granted() && f.begun <= at {
			ended := min(f.ended, at)
			level = max(0, level-leaseLimit.LeakRate*(ended-last).Seconds()) + f.amount
			last = ended
		}
	}
	return max(0, level-leaseLimit.LeakRate*(at-last).Seconds())
}
