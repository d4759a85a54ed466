package turn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan decides who has the turn. The default decision is that the goroutine goes on that had it, or
// else the oldest one.
type Plan struct {
	// Rand makes the decisions of a new schedule. Nil repeats those of Fixed.
	Rand  *rand.Rand
	Fixed []Switch // in order of Step
	// Often is the share of steps, in a thousand, that give the turn to another goroutine.
	Often int
	// Passing is the share of steps, in a thousand, at which time passes although goroutines could
	// go on.
	Passing int
	Passes  []time.Duration // the times that can pass
}

// Switch is a decision that is not the default one.
type Switch struct {
	Step int
	// To counts from the goroutine, or the case of a select, that the default takes. A negative
	// number lets time pass.
	To int
}

// next makes the decision of one step among n goroutines.
func (p *Plan) next(s *Schedule, n int) int {
	if s.quiet {
		return 0
	}
	return p.choose(s, func() int {
		switch r := p.Rand.IntN(1000); {
		case r < p.Passing:
			return -1 - p.Rand.IntN(len(p.Passes))
		case n > 1 && r < p.Passing+p.Often:
			return p.Rand.IntN(n)
		}
		return 0
	})
}

// choose counts a step. It returns the fixed decision or that of random, and keeps it.
func (p *Plan) choose(s *Schedule, random func() int) (to int) {
	s.step++
	switch {
	case p.Rand != nil:
		to = random()
	case len(p.Fixed) > 0 && p.Fixed[0].Step <= s.step:
		to = p.Fixed[0].To
		p.Fixed = p.Fixed[1:]
	}
	if to != 0 {
		s.Switches = append(s.Switches, Switch{Step: s.step, To: to})
	}
	return to
}

// pick decides between n cases of a select.
func (s *Schedule) pick(n int) int {
	to := s.Plan.choose(s, func() int { return s.Plan.Rand.IntN(n) })
	return max(0, to) % n
}

// names returns the names of the goroutines by their numbers.
func (s *Schedule) names() map[int]string {
	names := make(map[int]string)
	for _, g := range s.all {
		names[g.id] = g.name
	}
	return names
}

// String returns the trace, a line for each step.
func (s *Schedule) String() string {
	var b strings.Builder
	names := s.names()
	for _, step := range s.Trace {
		if step.Goroutine < 0 {
			fmt.Fprintf(&b, "%12v %s\n", step.At, step.Site)
			continue
		}
		fmt.Fprintf(&b, "%12v g%d (%s) goes on from %s\n", step.At, step.Goroutine, names[step.Goroutine], step.Site)
	}
	return b.String()
}
