// Package clocktest gives tests both clocks of a machine.
package clocktest

import (
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/clock"
)

// Machine has a wall clock that can be set, and a monotonic clock that stands still while the
// machine is suspended. Any number of goroutines may use it at once.
type Machine struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// New returns a machine whose wall clock shows wall. Until the test ends, clocks that are made in
// this process belong to the machine. The test must not run in parallel with others.
func New(t testing.TB, wall time.Time) *Machine {
	m := &Machine{wall: wall, mono: time.Hour}
	t.Cleanup(clock.Inject(&clock.Machine{Wall: m.Wall, Mono: m.Mono}))
	return m
}

// Wall returns the time on the wall clock.
func (m *Machine) Wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

// Mono returns the time on the monotonic clock.
func (m *Machine) Mono() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mono
}

// Pass lets time pass.
func (m *Machine) Pass(d time.Duration) { m.move(d, d) }

// Set moves the wall clock alone: forward also if the machine is suspended, and back if d is
// negative.
func (m *Machine) Set(d time.Duration) { m.move(d, 0) }

func (m *Machine) move(wall, mono time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.mono = m.wall.Add(wall), m.mono+mono
}
