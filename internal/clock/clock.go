// Package clock gives a store its one clock, which counts microseconds since the Unix epoch and
// follows the wall clock of the machine.
package clock

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Options adjust a [Clock].
type Options struct {
	// Source replaces the machine's clocks, and is taken as it is. It may step back.
	Source func() time.Time
	// MaxSkew is how far the clock may be ahead of the wall clock. A wall clock that is further
	// behind is followed at once.
	MaxSkew time.Duration
	// Backend begins each line of the log.
	Backend string
	// Logger gets a line for each jump of the clock by more than MaxSkew. Nil means silence.
	Logger *slog.Logger
}

// Clock shows the wall clock of the machine as long as that runs forward.
//
// If the wall clock is set forward, or goes on while the machine is suspended, the Clock jumps
// with it. If the wall clock is behind by at most MaxSkew, the Clock does not run back: it runs at
// half the speed of the monotonic clock until both show the same. If the wall clock is further
// behind, the Clock jumps back to it.
//
// A wall clock that was set is noticed within a millisecond of the monotonic clock, because a
// reading of both clocks takes twice as long as a reading of one. Any number of goroutines may use
// a Clock at once, if its source allows that.
//
// In a bubble of testing/synctest, the Clock shows the time of the bubble. If it was made outside,
// it jumps to that time, and back at the next reading outside.
type Clock struct {
	start   time.Time              // with its monotonic reading
	machine *Machine               // nil unless a test replaced the machine's clocks
	course  atomic.Pointer[course] // nil if the clock has a source

	o  Options
	mu sync.Mutex // held during a comparison with the wall clock
}

// course tells the readings of a clock from one comparison with the wall clock to the next. It is
// not used after until, and the next course begins later. So a reader who finds either of the two
// reads no less than a reader before.
type course struct {
	mono   int64 // nanoseconds on the monotonic clock
	us, ns int64 // the reading at mono: microseconds since the Unix epoch, and nanoseconds below 1000
	behind int64 // nanoseconds by which the wall clock was behind at mono
	slop   int64 // nanoseconds by which the wall clock may have been ahead at mono
	// until is the next comparison, on the monotonic clock. In a bubble of testing/synctest, the
	// time since a start outside is negative: then until is 0, and each reading is a comparison.
	until uint64
}

// compareEvery is the time from one comparison to the next, on the monotonic clock.
const compareEvery = int64(time.Millisecond)

// New returns a clock.
func New(o Options) *Clock {
	o.MaxSkew = min(o.MaxSkew, math.MaxInt64/2) // so that no sum overflows
	c := &Clock{o: o, machine: injected, start: time.Now()}
	if o.Source != nil {
		return c
	}
	before, wall, after := c.read()
	c.course.Store(shown(before, wall, after))
	return c
}

// Resume makes the clock go on from highest, the highest time of an earlier run, so that no time
// is used twice if the wall clock was set back between the runs. If highest is more than MaxSkew
// ahead of the wall clock, Resume does not believe it, changes nothing, and returns how far it is
// ahead. A clock with a source stays as it is. Call Resume before the clock is used.
func (c *Clock) Resume(highest int64) (ahead time.Duration) {
	if c.o.Source != nil {
		return 0
	}
	now := *c.course.Load()
	ahead = between(highest, now.us)
	if ahead > c.o.MaxSkew {
		return ahead
	}
	if ahead > 0 {
		now.us, now.ns, now.behind = highest, 0, int64(ahead)-now.ns
		c.course.Store(&now)
	}
	return 0
}

// Now returns microseconds since the Unix epoch.
func (c *Clock) Now() int64 {
	var m int64
	if c.machine == nil {
		m = int64(time.Since(c.start)) // by hand: the compiler does not inline mono
	} else {
		m = c.mono()
	}
	if s := c.course.Load(); s != nil && uint64(m) < s.until {
		us, _ := s.at(m)
		return us
	}
	return c.compare()
}

// compare returns microseconds since the Unix epoch after a comparison with the wall clock.
func (c *Clock) compare() int64 {
	if c.o.Source != nil {
		return c.o.Source().UnixMicro()
	}
	c.mu.Lock()
	last := c.course.Load()
	if m := c.mono(); uint64(m) < last.until { // another goroutine has compared meanwhile
		us, _ := last.at(m)
		c.mu.Unlock()
		return us
	}
	before, wall, after := c.read()
	next, jump := last.next(before, wall, after, c.o.MaxSkew)
	c.course.Store(next)
	us, _ := next.at(after)
	c.mu.Unlock()
	if jump != 0 && c.o.Logger != nil { // without the lock: the logger may call the store
		direction := "forward"
		if jump < 0 {
			direction, jump = "back", -jump
		}
		c.o.Logger.Warn(c.o.Backend+": the wall clock jumped by more than MaxSkew, and the store's clock follows it",
			"direction", direction, "by", jump, "max_skew", c.o.MaxSkew)
	}
	return us
}

// shown returns the course of a clock that shows the wall clock, after a reading of the wall clock
// between two readings of the monotonic clock.
func shown(before int64, wall time.Time, after int64) *course {
	return &course{
		mono: after, us: wall.UnixMicro(), ns: int64(wall.Nanosecond() % 1000), slop: after - before,
		until: uint64(max(0, after+compareEvery)),
	}
}

// next returns the course after a reading of the wall clock between two readings of the monotonic
// clock. The goroutine may have stood still between the readings. So the wall clock is ahead only
// if it is ahead at the later reading, and behind only if it is behind at the earlier one. jump is
// not 0 if the clock jumps by more than maxSkew.
func (s *course) next(before int64, wall time.Time, after int64, maxSkew time.Duration) (n *course, jump time.Duration) {
	w, most := shown(before, wall, after), maxSkew.Microseconds()
	us, ns := s.at(after)
	if w.us > us || w.us == us && w.ns > ns {
		if w.us-us > most+(s.slop+999)/1000 {
			jump = between(w.us, us)
		}
		return w, jump
	}
	us, ns = s.at(before)
	switch {
	case us-w.us > most:
		return w, between(w.us, us)
	case before < s.mono: // a later bubble of testing/synctest begins where an earlier one began
		return w, 0
	}
	next := *s
	next.until = w.until
	if behind := (us-w.us)*1000 + ns - w.ns; behind > 0 {
		next.mono, next.us, next.ns, next.behind = before, us, ns, behind
	}
	return &next, 0
}

// at returns the reading at the time m of the monotonic clock.
func (s *course) at(m int64) (us, ns int64) {
	passed := max(0, m-s.mono)
	ns = s.ns + passed - min(passed/2, s.behind)
	return s.us + ns/1000, ns % 1000
}

// between returns the time from b to a. A time beyond 292 years is as long.
func between(a, b int64) time.Duration { return time.UnixMicro(a).Sub(time.UnixMicro(b)) }

// mono returns nanoseconds on the monotonic clock.
func (c *Clock) mono() int64 {
	if c.machine != nil {
		return int64(c.machine.Mono())
	}
	return int64(time.Since(c.start))
}

// read reads the wall clock between two readings of the monotonic clock.
func (c *Clock) read() (before int64, wall time.Time, after int64) {
	if c.machine != nil {
		return c.mono(), c.machine.Wall(), c.mono()
	}
	before = c.mono()
	wall = time.Now()
	return before, wall, c.mono()
}

// Machine is the two clocks of a machine, for tests.
type Machine struct {
	Wall func() time.Time
	Mono func() time.Duration
}

var injected *Machine

// Inject makes clocks that are made from now on read m instead of the clocks of this machine, and
// returns a function that ends this. It is for tests that do not run in parallel.
func Inject(m *Machine) (restore func()) {
	injected = m
	return func() { injected = nil }
}
