// Package clock gives a store its one clock, which counts microseconds since the Unix epoch and
// never runs backwards.
package clock

import "time"

// Clock reads the system's clock once, when it is made, and carries that time forward by the
// monotonic clock. It does not follow steps of the system's clock. An injected source is taken as
// it is. Any number of goroutines may use a Clock at once, if its source allows that.
type Clock struct {
	source func() time.Time
	start  time.Time // with its monotonic reading
	epoch  int64     // the reading of the clock at start
}

// New returns a clock that reads source, or the system's clock if source is nil.
func New(source func() time.Time) *Clock {
	now := time.Now()
	return &Clock{source: source, start: now, epoch: now.UnixMicro()}
}

// Resume moves the clock forward to highest, the highest time of an earlier run, so that no time
// is used twice if the system's clock was set back between the runs. If highest is more than
// maxSkew ahead of the system's clock, Resume does not believe it, changes nothing, and returns
// how far it is ahead. A clock with an injected source stays as it is. Call Resume before the
// clock is used.
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
