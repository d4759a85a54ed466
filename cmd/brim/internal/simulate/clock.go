package simulate

import (
	"math"
	"sync/atomic"
	"time"
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
