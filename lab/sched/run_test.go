package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/sched/turn"
)

// outcome is the result of one schedule.
type outcome struct {
	err      error
	schedule *turn.Schedule
}

// scheduleOf returns the program and the plan of a seed.
func (u *subject) scheduleOf(seed attack.Seed) (program, turn.Plan) {
	r := seed.Rand()
	p := u.random(r)
	return p, u.plan(r)
}

// plan returns a plan. Some plans switch often and some hardly ever, because some defects need many
// switches, and others one that few others disturb.
func (u *subject) plan(r *rand.Rand) turn.Plan {
	p := turn.Plan{Rand: r, Often: [...]int{30, 100, 300, 600, 900}[r.IntN(5)]}
	if len(u.passes) > 0 {
		p.Passing, p.Passes = [...]int{0, 10, 50}[r.IntN(3)], u.passes
	}
	return p
}

// play runs a program by a plan.
func (u *subject) play(t *testing.T, p program, plan turn.Plan) (o outcome) {
	defer func() {
		// A schedule that failed leaves goroutines behind, and its bubble ends with a panic.
		if caught := recover(); caught != nil && o.err == nil {
			o.err = fmt.Errorf("the bubble: %v", caught)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		s := &stage{world: u.begin(p), program: p}
		o.schedule, o.err = turn.Play(synctest.Wait, plan, s.main)
		if o.err == nil {
			o.err = s.err
		}
		if o.err == nil {
			o.err = s.check(o.schedule)
		}
	})
	return o
}

// finding is a schedule that differs from the model, in its shortest form.
type finding struct {
	program program
	outcome
}

func (f *finding) String() string {
	return fmt.Sprintf("%v\n%v%d switches:\n%v", f.err, f.program, len(f.schedule.Switches), f.schedule)
}

// shrink looks for fewer calls, and then for fewer switches.
func (u *subject) shrink(t *testing.T, seed attack.Seed, p program, o outcome) *finding {
	f := &finding{p, o}
	// fails reports whether a program fails by a plan, and keeps it as the shortest so far.
	fails := func(p program, plan turn.Plan) bool {
		plan.Passes = u.passes // a fixed plan repeats the times that passed
		o := u.play(t, p, plan)
		if o.err == nil || o.schedule == nil {
			return false
		}
		f = &finding{p, o}
		return true
	}
	random := func(n int) turn.Plan { return u.plan(rand.New(rand.NewPCG(uint64(seed), uint64(n)))) }
	attack.Shrink(p.calls, 100, func(calls []call) bool {
		shorter := program{p.config, calls}
		if fails(shorter, turn.Plan{Fixed: f.schedule.Switches}) {
			return true
		}
		for n := range 40 {
			if fails(shorter, random(n)) {
				return true
			}
		}
		return false
	})
	for n := range 300 { // a plan that hardly ever switches, if one fails, too
		plan, before := random(n), f
		plan.Often = 30
		if fails(f.program, plan) && len(f.schedule.Switches) > len(before.schedule.Switches) {
			f = before
		}
	}
	attack.Shrink(f.schedule.Switches, 300, func(switches []turn.Switch) bool {
		return fails(f.program, turn.Plan{Fixed: switches})
	})
	return f
}

var errNoAnswer = errors.New("a call has no answer")
