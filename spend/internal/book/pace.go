package book

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/sleep"
)

// Pace keeps long work from the throughput of others who need the same locks and cores: whoever
// works in parts calls Worked in each part, and Rest between two of them. The zero Pace is ready.
// Any number of goroutines may use it at once.
type Pace struct{ worked atomic.Int64 } // nanoseconds since the last rest

// A rest is rests times as long as the work since the last one: a ledger does as much again outside
// of jobs, to remove what they drop, and others that do not need the work keep about four fifths of
// their throughput. It is no longer than longestRest, because a server may have stopped within
// the work.
const (
	rests       = 12
	longestRest = time.Second
)

// Worked notes the work since a time. The time for which a part waits for its turn is no work.
func (p *Pace) Worked(since time.Time) { p.worked.Add(int64(time.Since(since))) }

// Rest rests, or returns the error of the context when it ends. There is no rest without work.
func (p *Pace) Rest(ctx context.Context) error {
	return sleep.For(ctx, min(rests*time.Duration(p.worked.Swap(0)), longestRest))
}
