// Package brimtest has a clock for the tests of programs that limit by brim.
//
//	clock := brimtest.NewClock(time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC))
//	db := memory.New(&memory.Options{Clock: clock.Now})
//	clock.Advance(time.Minute) // and the buckets have leaked for a minute
//
// Every Options.Clock of brim takes its method Now. The turns of a Shaper, and the waits of
// Limiter.Wait, go by the timers of the program: package testing/synctest moves those.
//
// In a bubble of testing/synctest, a store in memory needs no such clock: its buckets leak by the
// time of the bubble. Make the store inside. A store that was made outside jumps to the time of the
// bubble at its first call there, keeps the levels, and jumps back outside, so that all has leaked.
package brimtest

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until a test moves it. Any number of goroutines may use it at
// once.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows at.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set makes the clock show at.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = at
}

// Advance moves the clock by d. A negative d steps it back, as an operator may step the clock of a
// machine.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
