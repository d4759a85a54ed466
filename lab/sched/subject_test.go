package sched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/sched/turn"
)

// subject is attacked with schedules.
type subject struct {
	name   string
	night  int             // schedules of a night
	passes []time.Duration // the times that pass while goroutines could go on
	random func(r *rand.Rand) program
	begin  func(p program) world
}

// program is the input of a schedule.
type program struct {
	config [4]int // options of the subject
	calls  []call
}

// call is one call of an actor. Its numbers mean what the subject makes of them.
type call struct {
	actor  int
	do     string
	key    int
	amount int
	leave  int        // milliseconds after which the context ends; 0: never; -1: when an actor cancels it
	op     history.Op // for stores that are compared with the model of package history
}

func (p program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "options %v\n", p.config)
	for _, c := range p.calls {
		if c.op.Kind != "" {
			fmt.Fprintf(&b, "actor %d: %v", c.actor, c.op)
		} else {
			fmt.Fprintf(&b, "actor %d: %s key %d amount %d", c.actor, c.do, c.key, c.amount)
		}
		switch {
		case c.leave < 0:
			b.WriteString(" until it is canceled")
		case c.leave > 0:
			fmt.Fprintf(&b, " for %d ms at most", c.leave)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// world is a subject with its model during one schedule.
type world interface {
	// setup runs before the actors, without points.
	setup() error
	// do carries out the i-th call of the program.
	do(ctx context.Context, i int, c call)
	// finish runs when all actors have ended.
	finish()
	// check judges the schedule.
	check(s *turn.Schedule) error
}

// stage is the part that all worlds share: it starts the actors of a program.
type stage struct {
	world
	program
	cancel []context.CancelFunc // of each actor's call
	err    error
}

// cancels is the call that ends the context of another actor's call.
const cancels = "cancel"

// main runs the program on the goroutines of a schedule.
func (s *stage) main() {
	turn.Quiet(true)
	if s.err = s.setup(); s.err != nil {
		return
	}
	turn.Quiet(false)
	actors := 0
	for _, c := range s.calls {
		actors = max(actors, c.actor+1)
	}
	s.cancel = make([]context.CancelFunc, actors)
	done := make(chan struct{}, actors)
	for a := range actors {
		turn.Go(fmt.Sprintf("actor %d", a), func() {
			defer func() { done <- struct{}{} }()
			s.act(a)
		})
	}
	for range actors {
		turn.Recv("main", done)
	}
	s.finish()
}

// act carries out the calls of one actor.
func (s *stage) act(actor int) {
	for i, c := range s.calls {
		if c.actor != actor {
			continue
		}
		turn.Point("call")
		if c.do == cancels {
			if c.key < len(s.cancel) && s.cancel[c.key] != nil {
				s.cancel[c.key]()
			}
			continue
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		switch {
		case c.leave < 0:
			ctx, cancel = context.WithCancel(ctx)
		case c.leave > 0:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(c.leave)*time.Millisecond)
		}
		s.cancel[actor] = cancel
		s.do(ctx, i, c)
		s.cancel[actor] = nil
		cancel()
	}
}

// pickLeave returns a random call.leave. often is the share of calls that can end early, in
// percent.
func pickLeave(r *rand.Rand, often int) int {
	switch {
	case r.IntN(100) >= often:
		return 0
	case r.IntN(2) == 0:
		return -1
	}
	return 1 + r.IntN(3)
}
