package lin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/lab/internal/harness"
)

// finding is a history that the model does not allow.
type finding struct {
	m    model
	part []*call
}

// shrinkPlan runs shorter and shorter plans for up to a time, each several times because no two
// runs are alike. It returns the finding of the shortest plan that failed.
func shrinkPlan(s subject, seed harness.Seed, f *finding, most time.Duration) *finding {
	_, p, err := s.start(seed)
	if err != nil {
		return f
	}
	meter := harness.Budget{Count: 1000, Time: most}.Start()
	harness.Shrink(p.steps, meter.Count, func(steps []step) bool {
		for range 3 {
			if meter.Spent() {
				return false
			}
			meter.Done++
			g, _, err := s.try(seed, steps)
			if err == nil && g != nil {
				f = g
				return true
			}
		}
		return false
	})
	return f
}

// patience limits one check while a finding shrinks.
const patience = 2 * time.Second

// shrink returns a shorter part of the same history that the model does not allow. It ends the
// history as early as it can, and leaves out reads and refusals: without them, a history that the
// model allows would still be allowed. A call that changed something must stay.
func (f *finding) shrink() *finding {
	ends := make([]int64, 0, len(f.part))
	for _, c := range f.part {
		if c.over != never {
			ends = append(ends, c.over)
		}
	}
	slices.Sort(ends)
	n, _ := slices.BinarySearchFunc(ends, true, func(end int64, _ bool) int {
		if illegal(f.m, until(f.part, end), patience) {
			return 1
		}
		return -1
	})
	part := f.part
	if n < len(ends) {
		part = until(part, ends[n])
	}
	var busy, idle []*call
	for _, c := range part {
		if c.out != nil && !c.in.writes(c.out) {
			idle = append(idle, c)
		} else {
			busy = append(busy, c)
		}
	}
	with := func(some []*call) []*call {
		all := slices.Concat(busy, some)
		slices.SortFunc(all, func(a, b *call) int { return int(a.began - b.began) })
		return all
	}
	idle = harness.Shrink(idle, 100, func(some []*call) bool { return illegal(f.m, with(some), patience) })
	return &finding{m: f.m, part: with(idle)}
}

// until returns the history up to a stamp. The outcome of a call in flight is then unknown.
func until(calls []*call, end int64) (part []*call) {
	for _, c := range calls {
		switch {
		case c.over <= end:
			part = append(part, c)
		case c.began < end && c.in.writes(nil):
			unknown := *c
			unknown.out, unknown.over = nil, never
			part = append(part, &unknown)
		}
	}
	return part
}

// describe tells the history, and how far the model can follow it.
func (f *finding) describe() string {
	var b strings.Builder
	follows := make(map[*call]int)
	for i, c := range longest(f.m, f.part, patience) {
		follows[c] = i + 1
	}
	fmt.Fprintf(&b, "the model allows no order of these calls: %+v\n", f.m)
	b.WriteString("began over   client  order  clock  call: answer (in no order: the model cannot place the call)\n")
	for _, c := range f.part {
		over, order, out := fmt.Sprint(c.over), "", "outcome unknown"
		if c.over == never {
			over = ""
		}
		if n := follows[c]; n > 0 {
			order = fmt.Sprint(n)
		}
		if c.out != nil {
			out = c.out.String()
		}
		if c.learned {
			out = "outcome unknown, and later: " + out
		}
		fmt.Fprintf(&b, "%5d %5s  %6d  %5s  %v  %v: %s\n", c.began, over, c.client, order, seconds(c.readings), c.in, out)
	}
	return b.String()
}
