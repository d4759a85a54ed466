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
// argument is that of [Lane.LockTimeout]; idle_timeout(given), whose argument is that of
// [Lane.IdleTimeout]; and bits(double), instant(time) and octets(bytes), in which doubles, times
// and bytes leave the server, so that no setting of a session changes them.
func Fragments() (list []pgname.Fragment) {
	for _, text := range [...]string{clock, lockTimeout, idleTimeout, bitsFile, instantFile, octetsFile} {
		list = append(list, pgname.ParseFragment(text))
	}
	return list
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
