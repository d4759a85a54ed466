package sched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// subject is tested by schedules.
type subject struct {
	name   string
	random func(r *rand.Rand) program
	begin  func(p program) world
}

// program is the input of a schedule.
type program struct {
	config [4]int // options of the subject
	pauses uint64 // the seed of the pauses in the store below
	calls  []call
}

// call is one call of an actor. Its numbers mean what the subject makes of them.
type call struct {
	actor  int
	pause  time.Duration // before the call
	do     string
	key    int
	amount int
	txn    store.Txn     // for stores whose calls are transactions
	leave  time.Duration // after which the context ends; 0: it does not
	cancel bool          // the context is canceled then; else it has a deadline
}

func (p program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "options %v, pauses %d\n", p.config, p.pauses)
	for i, c := range p.calls {
		fmt.Fprintf(&b, "call %d, actor %d, after %v: %s key %d amount %d", i, c.actor, c.pause, c.do, c.key, c.amount)
		for _, op := range c.txn {
			fmt.Fprintf(&b, " (key %s amount %g mode %d)", op.Key, op.Amount, op.Mode)
		}
		switch {
		case c.leave > 0 && c.cancel:
			fmt.Fprintf(&b, ", canceled after %v", c.leave)
		case c.leave > 0:
			fmt.Fprintf(&b, ", for %v at most", c.leave)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// world is a subject with its model during one schedule.
type world interface {
	// setup runs before the actors.
	setup() error
	// do carries out the i-th call of the program. Actors call it at the same time.
	do(ctx context.Context, i int, c call)
	// finish runs when all actors have ended.
	finish()
	// check judges the schedule.
	check() error
}

// verdict is the first error that a world finds.
type verdict struct{ err error }

func (v *verdict) wrong(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

// act carries out the calls of one actor.
func (p program) act(w world, actor int) {
	for i, c := range p.calls {
		if c.actor != actor {
			continue
		}
		time.Sleep(c.pause)
		ctx, cancel := context.WithValue(context.Background(), callKey{}, i), context.CancelFunc(func() {})
		switch {
		case c.leave > 0 && c.cancel:
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(c.leave, cancel)
		case c.leave > 0:
			ctx, cancel = context.WithTimeout(ctx, c.leave)
		}
		w.do(ctx, i, c)
		cancel()
	}
}

// callKey is the key of a context's value that tells the index of the call.
type callKey struct{}

// randomCall returns a call of one of the actors. often is the share of contexts that end, in
// percent.
func randomCall(r *rand.Rand, actors int, do string, often int) call {
	c := call{actor: r.IntN(actors), do: do}
	if r.IntN(2) == 0 {
		c.pause = moment(r, 2)
	}
	if r.IntN(100) < often {
		c.leave, c.cancel = moment(r, 3), r.IntN(2) == 0
	}
	return c
}

// moment returns a random time of up to so many milliseconds. Most moments are whole milliseconds,
// so that many events fall on one instant and race. The others put events in an order. They are
// eighths, which keep levels exact.
func moment(r *rand.Rand, most int) time.Duration {
	if r.IntN(4) == 0 {
		return milliseconds(r.IntN(8*most)) / 8
	}
	return milliseconds(r.IntN(most + 1))
}

// milliseconds is so many of them.
func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
