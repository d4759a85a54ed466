package sched

import (
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/sched/turn"
)

// catches are the defects of the subjects. The harness must find each of them.
var catches = []struct {
	subject     *subject
	defect, why string
	seed        attack.Seed // a few schedules before one that catches a rare defect
}{
	{combineSubject, "lost update", "two flushes decide one key at once", 1},
	{combineSubject, "answered twice", "the next caller takes the answer for its own", 1},
	{combineSubject, "never answered", "a caller of a batch waits for ever", 1},
	{combineSubject, "leave takes another along", "the request behind the one that left is gone, too", 1},
	{combineSubject, "another flush is cut", "the flush of a caller whose context has ended has ended, too", 1},
	{relaxedSubject, "lost update", "the bucket is unlocked between the decision and the write", 1},
	{relaxedSubject, "time steps back", "the clock is read before the lock", 1},
	{relaxedSubject, "forgotten while it is written", "the bucket is read from the file before the file has it", 43560},
	{leaseSubject, "more than it took", "an allotment serves units that the store did not grant", 1},
	{leaseSubject, "served twice", "two callers get the same units of an allotment", 1740},
	{refusalsSubject, "remembered beyond its time", "a refusal counts longer than Remember", 3970},
	{refusalsSubject, "an old answer is learned", "the answer is older than the call that made room", 1},
	{refusalsSubject, "granted from memory", "only the store may grant", 1},
	{queueSubject, "room is forgotten", "nobody gets the room of a Put that left", 4400},
	{queueSubject, "too early", "the spacing of turns is left out", 1},
	{shaperSubject, "slot lost", "a caller whose context ends keeps its turn", 1},
	{shaperSubject, "taken back twice", "two Cancels take the same units out", 1},
}

// TestCatches attacks subjects with defects.
func TestCatches(t *testing.T) {
	for _, c := range catches {
		t.Run(c.subject.name+"/"+c.defect, func(t *testing.T) {
			turn.SetDefect(c.defect)
			defer turn.SetDefect("")
			meter := attack.Budget{Count: math.MaxInt, Time: time.Minute}.Start()
			for ; !meter.Spent(); meter.Done++ {
				p, plan := c.subject.scheduleOf(c.seed.Part(meter.Done))
				if o := c.subject.play(t, p, plan); o.err != nil {
					t.Logf("caught after %d schedules: %.200v", meter.Done+1, o.err)
					return
				}
			}
			t.Errorf("%d schedules did not catch it: %s", meter.Done, c.why)
		})
	}
}

// TestShrinks: the failure that is shown has few calls and few switches, and its plan repeats it.
func TestShrinks(t *testing.T) {
	turn.SetDefect("lost update")
	defer turn.SetDefect("")
	u := relaxedSubject
	for seed := attack.Seed(1); ; seed++ {
		p, plan := u.scheduleOf(seed)
		o := u.play(t, p, plan)
		if o.err == nil {
			continue
		}
		f := u.shrink(t, seed, p, o)
		t.Log(f)
		if len(f.program.calls) > 3 || len(f.schedule.Switches) > 5 {
			t.Errorf("%d calls and %d switches are left of %d and %d",
				len(f.program.calls), len(f.schedule.Switches), len(p.calls), len(o.schedule.Switches))
		}
		again := u.play(t, f.program, turn.Plan{Fixed: f.schedule.Switches, Passes: u.passes})
		if again.err == nil || again.schedule.String() != f.schedule.String() {
			t.Errorf("the plan of the failure made another schedule:\n%v\n%v", again.err, again.schedule)
		}
		return
	}
}
