package sqlite

import (
	"log/slog"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultPrefix      = "brim_"
	DefaultLockTimeout = 3 * time.Second
	DefaultPruneEvery  = 10 * time.Minute
)

// Options are the choices of [New]. A nil *Options means all defaults.
type Options struct {
	// Prefix begins the names of all tables; "" means [DefaultPrefix].
	Prefix string
	// NoMigrate makes New expect the tables, for applications that run [SQL] among their own
	// migrations. By default New calls [Migrate].
	NoMigrate bool
	// Relaxed leaves PRAGMA synchronous as each connection has it. Where that is NORMAL in WAL
	// mode, as it often is, a killed process loses nothing, and a power failure loses the decisions
	// since the last checkpoint. Package spend/sqliteledger refuses such a store.
	Relaxed bool
	// LockTimeout is how long a call waits for a connection of the pool and for SQLite's lock; 0
	// means [DefaultLockTimeout]. The busy timeout of a connection does not lengthen it.
	LockTimeout time.Duration
	// Clock replaces the clock of the machine, for tests and for replaying logs. It must be safe
	// for concurrent use.
	Clock func() time.Time
	// MaxSkew is how far ahead of the clock a stored time is believed; 0 means
	// [store.DefaultMaxSkew].
	MaxSkew time.Duration
	// PruneEvery is the interval at which a goroutine removes empty buckets, until Close; 0 means
	// [DefaultPruneEvery], and a negative interval means never.
	PruneEvery time.Duration
	// Logger is told of stored times that are not believed, of jumps of the wall clock, of damage
	// and of pruning. Nil means silence.
	Logger *slog.Logger
	// Trace is told of each flush and of each wait for the lock. A ledger in the database reports
	// here, too.
	Trace store.Trace
}

// withDefaults returns a copy of o, which may be nil, with its zero fields filled in.
func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.MaxSkew < 0 || full.LockTimeout < 0 {
		return full, sqliterun.Misconfigured(nil, "an option is negative; use 0 for its default")
	}
	if full.Prefix == "" {
		full.Prefix = DefaultPrefix
	}
	if full.MaxSkew == 0 {
		full.MaxSkew = store.DefaultMaxSkew
	}
	if full.LockTimeout == 0 {
		full.LockTimeout = DefaultLockTimeout
	}
	if full.PruneEvery == 0 {
		full.PruneEvery = DefaultPruneEvery
	}
	if full.Logger == nil {
		full.Logger = slog.New(slog.DiscardHandler)
	}
	return full, nil
}

// runner returns the choices of the runner.
func (o *Options) runner() sqliterun.Options {
	return sqliterun.Options{
		Prefix: o.Prefix, LockTimeout: o.LockTimeout, Relaxed: o.Relaxed, Log: o.Logger, Trace: o.Trace,
		Clock: clock.New(clock.Options{Source: o.Clock, MaxSkew: o.MaxSkew, Backend: backend, Logger: o.Logger}),
	}
}
