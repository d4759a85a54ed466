package sched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

var refusalsSubject = &subject{
	name: "refusals",
	random: func(r *rand.Rand) program {
		// Remember in ms; ms of a call to the store; the fill that fails; 1: it takes effect
		p := program{config: [4]int{5 + 10*r.IntN(3), r.IntN(3), r.IntN(8), r.IntN(2)}, pauses: r.Uint64()}
		actors := 2 + r.IntN(4)
		for range 4 + r.IntN(8) {
			c := randomCall(r, actors, "fill", 20)
			c.amount = 1 + r.IntN(40)
			if r.IntN(8) == 0 {
				c.key = 1
			}
			switch r.IntN(20) {
			case 0, 1:
				c.do = "drain"
			case 2, 3:
				c.do = "foreign drain"
			case 4:
				c.do = "foreign fill"
			case 5:
				c.do = "reset"
			case 6, 7, 8:
				c.pause = moment(r, 40)
			case 9:
				c.do = "fill under another limit"
			case 10:
				c.do = "apply"
			case 11:
				if r.IntN(4) == 0 {
					c.do = "close"
				}
			}
			p.calls = append(p.calls, c)
		}
		return p
	},
	begin: func(p program) world { return &refusalsWorld{program: p, answers: make([]timed, len(p.calls))} },
}

// refusalsLimit leaks a unit in a millisecond.
var refusalsLimit = store.Limit{Capacity: 50, LeakRate: 1000}

type refusalsWorld struct {
	program
	b       *below
	s       store.Store
	answers []timed
	closed  error
}

func (w *refusalsWorld) remember() time.Duration { return milliseconds(w.config[0]) }

func (w *refusalsWorld) setup() (err error) {
	w.b = newBelow(w.program)
	w.b.slow, w.b.fails, w.b.lost = milliseconds(w.config[1]), w.config[2], w.config[3] == 1
	if w.s, err = local.Refusals(w.b, &local.RefusalsOptions{Remember: w.remember(), MaxBuckets: 4}); err != nil {
		return err
	}
	_, err = w.b.foreign(context.Background(), store.Op{Bucket: refusalsLimit.For("0"), Amount: 45})
	return err
}

// fill is the fill of a call.
func (c call) fill() store.Op {
	op := store.Op{Bucket: refusalsLimit.For(fmt.Sprint(c.key)), Amount: float64(c.amount)}
	if c.do == "fill under another limit" {
		op.LeakRate *= 2
	}
	return op
}

func (w *refusalsWorld) do(ctx context.Context, i int, c call) {
	op := c.fill()
	drain := op
	drain.Amount, drain.Mode = -op.Amount, store.Always
	w.b.time(&w.answers[i], func() (st store.State, err error) {
		switch c.do {
		case "fill", "fill under another limit":
			return w.s.Fill(ctx, op)
		case "drain":
			return w.s.Fill(ctx, drain)
		case "apply":
			_, err = w.s.Apply(ctx, store.Txn{drain})
			return st, err
		case "foreign drain":
			return w.b.foreign(ctx, drain)
		case "foreign fill":
			return w.b.foreign(ctx, op)
		case "reset":
			return st, w.s.Delete(ctx, op.Key)
		}
		return st, w.s.Close()
	})
}

func (w *refusalsWorld) finish() { w.closed = w.s.Close() }

func (w *refusalsWorld) check() error {
	contents, err := w.b.contents()
	if err != nil {
		return err
	}
	for i, c := range w.calls {
		a := w.answers[i]
		if c.do == "close" && a.err != nil {
			return a.err
		}
		if c.do != "fill" && c.do != "fill under another limit" {
			continue
		}
		asked := w.b.of(i)
		switch {
		case len(asked) > 1:
			return fmt.Errorf("call %d asked the store %d times", i, len(asked))
		case len(asked) == 1 && asked[0].op != c.fill():
			return fmt.Errorf("call %d asked the store about another fill:\n%s", i, differ.Fields(asked[0].op, c.fill()))
		case a.err != nil:
		case a.state.Accepted && (len(asked) == 0 || !asked[0].state.Accepted):
			return fmt.Errorf("call %d was granted, and not by the store", i)
		case len(asked) == 0 && !a.state.Estimate:
			return fmt.Errorf("call %d was answered from memory and does not say so", i)
		case len(asked) == 1 && asked[0].state != a.state:
			return fmt.Errorf("call %d got another answer than the store's:\n%s", i, differ.Fields(a.state, asked[0].state))
		case len(asked) == 0:
			if err := w.refused(i, c, a, contents); err != nil {
				return err
			}
		}
	}
	return w.closed
}

// refused judges a refusal from memory. It must be true at some moment of the call, or else within
// Remember before it, if another process has made room since.
func (w *refusalsWorld) refused(i int, c call, a timed, contents []storetest.Model) error {
	next, until := a.to, a.ended // the entry that followed, and its time
	foreign := false             // another process, or a call that had not ended, has made room since
	earliest := a.begun - w.remember()
	for k := a.to - 1; k >= 0 && until >= earliest; k-- {
		e := w.b.entries[k]
		if e.op.Key != c.fill().Key {
			continue
		}
		// While this entry counts, the units fit the worst at the beginning.
		misfits := func(from time.Duration) bool {
			return history.Remembered(contents[k], c.fill(), w.b.start.Add(max(e.at, from)), a.state)
		}
		if next >= a.from && misfits(a.begun) || foreign && misfits(earliest) {
			return nil
		}
		// Room that a call of this Store makes is used when the call has returned.
		foreign = foreign || e.foreign || w.answers[e.call].last > a.first
		next, until = k, e.at
	}
	return fmt.Errorf("call %d (%v to %v) was refused %d units from memory, which the store would grant, or not so: %+v",
		i, a.begun, a.ended, c.amount, a.state)
}
