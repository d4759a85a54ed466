// Package clock gives a store its one clock: microseconds since the Unix epoch that never run backwards.
package clock

import "time"

// Clock is wall time as it was when the clock was made, carried forward by the monotonic clock: it does not follow steps of
// the system's clock. An injected source is taken as it is. A Clock may be used by any number of goroutines at once, if its
// source may.
type Clock struct {
	source func() time.Time
	start  time.Time // with its monotonic reading
	epoch  int64     // what the clock showed at start
}

// New returns a clock that reads source, or the system's clock if source is nil.
func New(source func() time.Time) *Clock {
	now := time.Now()
	return &Clock{source: source, start: now, epoch: now.UnixMicro()}
}

// Resume moves a clock that reads the system's forward to highest, the time that an earlier run has already shown, so that
// nothing is dated twice after the system's clock was set back between the runs. A time more than maxSkew ahead is not
// believed: Resume then changes nothing, and reports by how far it was ahead.
func (c *Clock) Resume(highest int64, maxSkew time.Duration) (ahead time.Duration) {
	if c.source != nil || highest <= c.epoch {
		return 0
	}
	if highest-c.epoch > maxSkew.Microseconds() {
		return time.UnixMicro(highest).Sub(time.UnixMicro(c.epoch))
	}
	c.epoch = highest
	return 0
}

// Now returns microseconds since the Unix epoch.
func (c *Clock) Now() int64 {
	if c.source != nil {
		return c.source().UnixMicro()
	}
	return c.epoch + time.Since(c.start).Microseconds()
}
