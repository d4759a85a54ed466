package pgrun

import (
	_ "embed" // for the fragments
	"time"

	"github.com/brimgo/brim/internal/pgname"
)

var (
	//go:embed clock.sql
	clock string
	//go:embed lock_timeout.sql
	lockTimeout string
	//go:embed idle_timeout.sql
	idleTimeout string
)

// Fragments returns the fragments that the statements of all packages share: clock(injected),
// whose argument is the parameter to which [Runner.Now] is bound; lock_timeout(given), whose
// argument is that of [Lane.LockTimeout]; and idle_timeout(given), whose argument is that of
// [Lane.IdleTimeout].
func Fragments() []pgname.Fragment {
	return []pgname.Fragment{pgname.ParseFragment(clock), pgname.ParseFragment(lockTimeout), pgname.ParseFragment(idleTimeout)}
}

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
