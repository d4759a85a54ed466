package migrations

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/brimgo/brim/internal/pgname"
)

// DefaultLockTimeout is how long a migration waits for locks where [Options] do not say otherwise.
const DefaultLockTimeout = 30 * time.Second

// Options say where the tables are and how to get there. A nil *Options is all defaults. An Options is not changed, so
// several calls may share one.
type Options struct {
	// Schema holds the tables and is created if it is missing. Taken byte for byte and quoted, so it may have upper case,
	// spaces and quotes; at most 63 bytes. Default: brim.
	Schema string
	// Table is the table of buckets, likewise; at most 48 bytes. The table of applied migrations is called the same, with
	// _migrations behind it. Default: buckets.
	Table string
	// Unlogged creates the table of buckets UNLOGGED: less is written, and a crash of the server empties every bucket. A
	// table that exists already stays as it is.
	Unlogged bool
	// LockTimeout is how long to wait for another process that migrates, and for each lock on a table. Default:
	// [DefaultLockTimeout].
	LockTimeout time.Duration
	// Logger is told what was changed, of a schema that is newer than this program, and of runs that were cut short. Nil is
	// silent.
	Logger *slog.Logger
}

// plan is options that were checked.
type plan struct {
	pgname.Names
	unlogged    bool
	lockTimeout time.Duration
	log         *slog.Logger
}

func newPlan(o *Options) (plan, error) {
	if o == nil {
		o = &Options{}
	}
	names, err := pgname.New(o.Schema, o.Table)
	if err != nil {
		return plan{}, err
	}
	p := plan{Names: names, unlogged: o.Unlogged, lockTimeout: o.LockTimeout, log: o.Logger}
	switch {
	case p.lockTimeout < 0:
		return plan{}, fmt.Errorf("lock timeout is %v; it must be positive, or 0 for %v", p.lockTimeout, DefaultLockTimeout)
	case p.lockTimeout == 0:
		p.lockTimeout = DefaultLockTimeout
	case p.lockTimeout < time.Millisecond:
		p.lockTimeout = time.Millisecond // 0 of the server's milliseconds would mean for ever
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	return p, nil
}
