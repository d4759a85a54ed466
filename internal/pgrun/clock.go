package pgrun

import (
	_ "embed" // for clock.sql
	"time"

	"github.com/brimgo/brim/internal/pgname"
)

//go:embed clock.sql
var clock string

// Clock returns the fragment clock(injected). Its argument is the parameter to which
// [Runner.Now] is bound.
func Clock() pgname.Fragment { return pgname.ParseFragment(clock) }

// Now returns the injected clock's time as the argument of a statement, or nil for the server's
// clock.
func (r *Runner) Now() *time.Time {
	if r.Clock == nil {
		return nil
	}
	t := r.Clock()
	return &t
}

// Timestamp returns a time in microseconds since the Unix epoch as the argument of a statement.
func Timestamp(us int64) time.Time { return time.UnixMicro(us) }
