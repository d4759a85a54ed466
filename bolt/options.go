package bolt

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/brimgo/brim/store"
)

// DefaultLockTimeout is how long [Open] waits for a file that another process has open, where [Options] do not say otherwise.
const DefaultLockTimeout = 3 * time.Second

// Options are the choices of [Open] and [New]. A nil *Options means all defaults.
type Options struct {
	// Clock is the store's clock, for tests and for replaying logs. Nil means wall time, read when the store is opened and
	// carried forward by the monotonic clock. An injected clock is taken as it is, and the highest time that the file keeps
	// is then neither read nor written, so that a replay does not disturb live buckets.
	Clock func() time.Time

	// MaxSkew is how far ahead of the clock a stored time is believed; 0 means [store.DefaultMaxSkew]. A clock that was set
	// back by less between two runs makes the store go on from the highest time it has written.
	MaxSkew time.Duration

	// LockTimeout is how long [Open] waits for a file that is open elsewhere; 0 means [DefaultLockTimeout], and a negative
	// one not at all.
	LockTimeout time.Duration

	// FileMode is the mode of a file that [Open] creates, before umask; 0 means 0600.
	FileMode fs.FileMode

	// NoVerify makes [Open] look at the file's meta pages and size only. Otherwise it reads all of the file and checks every
	// page and checksum, which takes some 20 ms for 100,000 buckets and 150 ms for a million. Without that, a damaged record
	// is found when it is used, but buckets that are missing altogether are found only by [Store.Verify], and a page that
	// refers to a wrong one can end the program in bbolt.
	NoVerify bool

	// Name is what brim's bucket in an application's database is called, for [New]; "" means "brim". A small second one is
	// called like it with ".meta" behind. Open always uses the default.
	Name string

	// Logger is told of damage, of times that are not believed, and of compaction; nil means silence.
	Logger *slog.Logger

	// Trace is told of each commit: how many callers shared it, how long it took, and why it failed.
	Trace store.Trace
}

const defaultName = "brim"

// withDefaults returns a copy of o, which may be nil, with its zero fields filled in.
func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.MaxSkew < 0 {
		return full, errors.New("MaxSkew is negative; it must be positive, or 0 for the default")
	}
	if len(full.Name) > 255 {
		return full, errors.New("Name is longer than 255 bytes")
	}
	if full.MaxSkew == 0 {
		full.MaxSkew = store.DefaultMaxSkew
	}
	if full.LockTimeout == 0 {
		full.LockTimeout = DefaultLockTimeout
	}
	if full.FileMode == 0 {
		full.FileMode = 0o600
	}
	if full.Name == "" {
		full.Name = defaultName
	}
	if full.Logger == nil {
		full.Logger = slog.New(slog.DiscardHandler)
	}
	return full, nil
}
