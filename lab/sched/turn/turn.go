package turn

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// state tells what a goroutine of a schedule does.
type state uint8

const (
	running state = iota // it has the turn, or blocks in an operation
	ready                // it waits for its turn
	waiting              // it waits for a [Mutex] or a condition
	ended
)

// goroutine is a goroutine of a schedule.
type goroutine struct {
	id int

	name   string
	state  state
	wake   chan struct{}
	site   string // of the last point
	depth  int    // the number of mutexes that it holds
	on     any    // the [Mutex] or condition that it waits for
	settle func() // decides between events of one instant; nil if there is nothing to decide
}

// Step is one line of a trace.
type Step struct {
	At        time.Duration // since the schedule began
	Goroutine int           // or -1
	Site      string        // the point that the goroutine goes on from
}

// Schedule is a run of some goroutines, one at a time.
type Schedule struct {
	Plan  Plan
	Trace []Step
	// Switches are the decisions that were not the default ones. A [Plan] that fixes them makes
	// the same schedule.
	Switches []Switch

	mu      sync.Mutex
	all     []*goroutine // that have started, in order of id
	made    int
	current *goroutine
	arrived chan struct{} // gets a token when a goroutine reaches a point or ends
	start   time.Time
	step    int
	quiet   bool
	watch   func(site string)
	err     error
}

// now is the schedule under way. A process plays one at a time.
var now *Schedule

// forever is longer than all times of a schedule.
const forever = 240 * time.Hour

// Play runs main and all goroutines that come from it, until the last of them ends. wait is
// synctest.Wait, and Play must run on the first goroutine of a bubble. The error tells of a panic,
// of goroutines that wait for ever, or of too many steps. After an error, goroutines are left.
func Play(wait func(), p Plan, main func()) (*Schedule, error) {
	s := &Schedule{Plan: p, arrived: make(chan struct{}, 1), start: time.Now()}
	now = s
	defer func() { now = nil }()
	Go("main", main)
	var timeout *time.Timer
	for {
		wait()
		candidates, left := s.settled()
		switch {
		case s.err != nil:
			return s, s.err
		case left == 0:
			return s, nil
		case s.step > maxSteps:
			return s, fmt.Errorf("the schedule does not end: %d steps", s.step)
		case len(candidates) > 0:
			s.decide(candidates)
			continue
		}
		if timeout == nil {
			timeout = time.NewTimer(forever)
			defer timeout.Stop()
		} else {
			timeout.Reset(forever)
		}
		select {
		case <-s.arrived:
		case <-timeout.C:
			return s, s.stuck()
		}
	}
}

// maxSteps is many times the number of steps of the longest schedule.
const maxSteps = 20_000

// settled returns the goroutines that can have the turn, and the number of those that have not
// ended. All goroutines block when it is called.
func (s *Schedule) settled() (candidates []*goroutine, left int) {
	for _, g := range s.all {
		if g.state != ended {
			left++
		}
		if g.state == ready {
			candidates = append(candidates, g)
		}
	}
	for _, g := range candidates {
		if g.settle != nil {
			g.settle()
			g.settle = nil
		}
	}
	return candidates, left
}

// decide gives the turn to one of the candidates, or lets time pass.
func (s *Schedule) decide(candidates []*goroutine) {
	first := max(0, slices.Index(candidates, s.current)) // whose turn it is by default
	n := s.Plan.next(s, len(candidates))
	if n < 0 {
		d := s.Plan.Passes[-n-1]
		s.note(nil, "time passes")
		time.Sleep(d)
		return
	}
	g := candidates[(first+n)%len(candidates)]
	s.note(g, g.site)
	s.current, g.state = g, running
	g.wake <- struct{}{}
}

func (s *Schedule) note(g *goroutine, site string) {
	id := -1
	if g != nil {
		id = g.id
	}
	s.Trace = append(s.Trace, Step{At: time.Since(s.start), Goroutine: id, Site: site})
}

// stuck tells of the goroutines that wait for ever.
func (s *Schedule) stuck() error {
	text := "these goroutines wait for ever:"
	for _, g := range s.all {
		if g.state != ended {
			text += fmt.Sprintf(" g%d (%s) at %s;", g.id, g.name, g.site)
		}
	}
	return fmt.Errorf("%s nothing else is left to do", text)
}

// newGoroutine returns a goroutine that does not run yet.
func (s *Schedule) newGoroutine(site string) *goroutine {
	g := &goroutine{id: s.made, name: site, wake: make(chan struct{}, 1)}
	s.made++
	return g
}

// park waits for the turn of g.
func (s *Schedule) park(g *goroutine, st state, site string) {
	if g.depth > 0 {
		panic("turn: " + site + " lies under a mutex")
	}
	s.mu.Lock()
	g.state, g.site = st, site
	s.mu.Unlock()
	s.signal()
	<-g.wake
}

func (s *Schedule) signal() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// begin makes g one of the schedule's goroutines and waits for its first turn.
func (s *Schedule) begin(g *goroutine) {
	s.mu.Lock()
	i, _ := slices.BinarySearchFunc(s.all, g.id, func(g *goroutine, id int) int { return g.id - id })
	s.all = slices.Insert(s.all, i, g)
	s.mu.Unlock()
	s.park(g, ready, g.name)
}

// end ends g. It is deferred, and takes a panic for the result of the schedule.
func (s *Schedule) end(g *goroutine) {
	p := recover()
	s.mu.Lock()
	g.state = ended
	if p != nil && s.err == nil {
		s.err = fmt.Errorf("g%d (%s) panicked: %v\n%s", g.id, g.name, p, debug.Stack())
	}
	s.mu.Unlock()
	s.signal()
}
