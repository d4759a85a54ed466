package lin

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
)

// clock is the clock of a history. It stands still between ticks, so a store can have read it only
// at the few values that it showed during a call.
type clock struct {
	mu     sync.Mutex
	set    func(now int64) error
	shown  []reading
	latest int64 // the highest value
}

// reading is a value of the clock and the part of the history in which it can have been read.
type reading struct{ value, from, to int64 }

// back is how many seconds the clock may step back behind its highest value. A whole history
// takes less time than the stores' MaxSkew: a caller can be so slow that its reading is as old.
const back = 8

// leastJump is the number of seconds from which a step may be as long as it wants, also backwards.
const leastJump = 60

// newClock returns a clock that shows the time at which histories begin. It calls set for every
// value.
func newClock(set func(now int64) error) (*clock, error) {
	now := history.At(0).UnixMicro()
	c := &clock{set: set, shown: []reading{{value: now, to: never}}, latest: now}
	return c, set(now)
}

// newShared returns a clock, and the function that reads it.
func newShared() (*clock, func() time.Time, error) {
	var now atomic.Int64
	c, err := newClock(func(us int64) error { now.Store(us); return nil })
	return c, func() time.Time { return time.UnixMicro(now.Load()) }, err
}

// tick moves the clock by so many seconds.
func (c *clock) tick(rec *recorder, seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.shown) - 1
	second := time.Second.Microseconds()
	now := c.shown[last].value + int64(seconds)*second
	if max(seconds, -seconds) < leastJump {
		now = max(now, c.latest-back*second)
		c.latest = max(c.latest, now)
	} else {
		c.latest = now
	}
	c.shown = append(c.shown, reading{value: now, from: rec.stamp(), to: never})
	if err := c.set(now); err != nil {
		return err
	}
	c.shown[last].to = rec.stamp()
	return nil
}

// between returns the values that could be read in a part of the history, each once.
func (c *clock) between(from, to int64) (values []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.shown {
		if r.from <= to && r.to >= from && !slices.Contains(values, r.value) {
			values = append(values, r.value)
		}
	}
	return values
}
