package migrations

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// DefaultLockTimeout is the default of Options.LockTimeout.
const DefaultLockTimeout = 30 * time.Second

// Options name the tables, and set how a migration waits and logs. A nil *Options means all
// defaults. No function changes an Options, so several calls may share one.
type Options struct {
	// Schema is the schema of the tables. Up creates it if it does not exist. The name is quoted,
	// so it may contain upper case, spaces and quotes. It has at most 63 bytes. The default is
	// brim.
	Schema string
	// Table is the table of buckets, quoted like Schema. It has at most 48 bytes. The table of
	// applied migrations has the same name with _migrations behind it. The default is buckets.
	Table string
	// Unlogged creates the table of buckets as UNLOGGED. The server then writes less, and a crash
	// of the server empties every bucket. A table that exists already does not change.
	Unlogged bool
	// DropLedger lets [Down] delete the tables of a ledger that has rows, and with them all records
	// of what was spent.
	DropLedger bool
	// LockTimeout is the longest time to wait for another process that migrates, and for each
	// lock on a table, and for the first answer of the server. 0 means [DefaultLockTimeout]. A
	// negative value is an error.
	LockTimeout time.Duration
	// Logger receives a record of each migration, of a schema that is newer than this program,
	// and of runs that were cut short. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// plan is checked options.
type plan struct {
	pgname.Names
	unlogged    bool
	dropLedger  bool
	lockTimeout time.Duration
	log         *slog.Logger
}

// newPlan checks the options.
func newPlan(o *Options) (plan, error) {
	if o == nil {
		o = &Options{}
	}
	names, err := pgname.New(o.Schema, o.Table)
	if err != nil {
		return plan{}, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	p := plan{Names: names, unlogged: o.Unlogged, dropLedger: o.DropLedger, lockTimeout: o.LockTimeout, log: o.Logger}
	switch {
	case p.lockTimeout < 0:
		return plan{}, fmt.Errorf("%w: lock timeout is %v; it must be positive, or 0 for %v", store.ErrMisconfigured,
			p.lockTimeout, DefaultLockTimeout)
	case p.lockTimeout == 0:
		p.lockTimeout = DefaultLockTimeout
	case p.lockTimeout < time.Millisecond:
		p.lockTimeout = time.Millisecond // the server takes 0 milliseconds for no timeout
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	return p, nil
}
