package turn

import (
	"reflect"
	"time"
)

// Go is a go statement.
func Go(site string, f func()) { go Func(site, f)() }

// Func returns f for a call on a new goroutine, which takes its turns. It may be called once.
func Func(site string, f func()) func() {
	s := now
	if s == nil {
		return f
	}
	g := s.newGoroutine(site)
	return func() {
		defer s.end(g)
		s.begin(g)
		f()
	}
}

// Call calls f, which may block on a channel.
func Call[T any](site string, f func() T) T {
	s := now
	if s == nil {
		return f()
	}
	Point(site)
	g := s.block(site)
	defer s.park(g, ready, site)
	return f()
}

// Block is [Call] of a function without a result.
func Block(site string, f func()) {
	Call(site, func() struct{} { f(); return struct{}{} })
}

// Sleep is time.Sleep.
func Sleep(site string, d time.Duration) { Block(site, func() { time.Sleep(d) }) }

// block returns the goroutine that has the turn and is about to block. It parks as soon as it goes
// on, because another goroutine has the turn then.
func (s *Schedule) block(site string) *goroutine {
	g := s.current
	if g.depth > 0 {
		panic("turn: " + site + " blocks under a mutex")
	}
	g.site = site
	return g
}

// Recv is a receive.
func Recv[T any](site string, ch <-chan T) T {
	s := now
	if s == nil {
		return <-ch
	}
	Point(site)
	select {
	case v := <-ch:
		return v
	default:
	}
	g := s.block(site)
	defer s.park(g, ready, site)
	return <-ch
}

// Send is a send.
func Send[T any](site string, ch chan<- T, v T) {
	s := now
	if s == nil {
		ch <- v
		return
	}
	Point(site)
	select {
	case ch <- v:
		return
	default:
	}
	g := s.block(site)
	defer s.park(g, ready, site)
	ch <- v
}

// Close is close.
func Close[T any](site string, ch chan T) {
	Point(site)
	close(ch)
}

// Receive is a case of a [Select].
type Receive struct {
	ch    reflect.Value
	try   func() bool // receives if a value is there, or the channel is closed
	timed bool        // a value comes when a time has passed, not from a goroutine
}

// Case returns the case of a select that receives from ch and drops the value.
func Case[T any](ch <-chan T) Receive {
	_, timed := any(ch).(<-chan time.Time)
	return Receive{ch: reflect.ValueOf(ch), timed: timed, try: func() bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}}
}

// Select is a select without a default, all of whose cases receive. It returns the index of the
// case. Where several cases are ready, the plan decides.
//
// A timer and a context can end at the same instant, and Go's timers then fire in a random order.
// So after a wait, the plan decides between all timers that have fired and all channels that are
// closed by then. The value of a timer that was not chosen is lost: no subject looks for it.
func Select(site string, cases ...Receive) int {
	s := now
	if s == nil {
		chosen, _, _ := reflect.Select(selectCases(cases))
		return chosen
	}
	Point(site)
	first := s.pick(len(cases))
	for i := range cases {
		if n := (first + i) % len(cases); cases[n].try() {
			return n
		}
	}
	g := s.block(site)
	chosen, _, sent := reflect.Select(selectCases(cases))
	if cases[chosen].timed || !sent {
		g.settle = func() { chosen = s.between(cases, chosen) }
	}
	s.park(g, ready, site)
	return chosen
}

func selectCases(cases []Receive) []reflect.SelectCase {
	all := make([]reflect.SelectCase, len(cases))
	for i, c := range cases {
		all[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: c.ch}
	}
	return all
}

// between decides between the case that a select took and the others that are ready at the same
// instant.
func (s *Schedule) between(cases []Receive, taken int) int {
	var at []int
	for i, c := range cases {
		if i == taken || c.ready() {
			at = append(at, i)
		}
	}
	if len(at) == 1 {
		return taken
	}
	return at[s.pick(len(at))]
}

// ready reports whether a timer has fired or a channel is closed. It takes the value of the timer,
// but no value that a goroutine sent.
func (c Receive) ready() bool { return (c.timed || c.ch.Len() == 0) && c.try() }
