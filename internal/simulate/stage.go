package simulate

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// MaxSkew is the MaxSkew of a store whose Clock is a [Clock]. The times of a log may be out of
// order by any amount.
const MaxSkew = time.Duration(math.MaxInt64)

// Clock is the clock of a store under simulation. It shows the time of the arrival that is being
// decided. Any number of goroutines may use it at once. The zero value shows the Unix epoch.
type Clock struct{ micros atomic.Int64 }

// Now returns the time that Set was last called with, in UTC. It is the Clock of the store's
// options.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()).UTC() }

// Set sets the clock to t, to a microsecond.
func (c *Clock) Set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// Stage is an empty store in memory on a clock that the program moves. It is for simulations of
// more than limits, such as a Shaper. [Run] needs none.
type Stage struct {
	*brim.Limiter
	Clock *Clock
	start time.Time
}

// NewStage returns a stage whose clock shows start.
func NewStage(start time.Time) (*Stage, error) {
	s := &Stage{Clock: new(Clock), start: start}
	s.Clock.Set(start)
	db, err := memory.New(&memory.Options{Clock: s.Clock.Now, MaxSkew: MaxSkew})
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	s.Limiter = brim.New(db, nil)
	return s, nil
}

// At moves the clock to the given time after the start.
func (s *Stage) At(since time.Duration) { s.Clock.Set(s.start.Add(since)) }
