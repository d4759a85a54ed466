package bolt

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultLockTimeout = 3 * time.Second
	DefaultLogSize     = 64 << 20
	DefaultPruneEvery  = 10 * time.Minute
)

// Options are the choices of [Open] and [New]. A nil *Options means all defaults.
type Options struct {
	// Clock is the store's clock, for tests and for replaying logs. If Clock is nil, the store
	// follows the wall clock, and time in which the machine was suspended counts. The store's time
	// does not run back: if the wall clock is set back by at most MaxSkew, the store's time runs at
	// half speed until both are equal. An injected clock is taken as it is. The highest time in the
	// file is then neither read nor written, so a replay does not disturb live buckets.
	Clock func() time.Time

	// MaxSkew limits how far ahead of the clock a stored time is believed; 0 means
	// [store.DefaultMaxSkew]. If the wall clock was set back by at most MaxSkew between two runs,
	// the store goes on from the highest time that it has written. If the wall clock is set back by
	// more, the store's time jumps back with it.
	MaxSkew time.Duration

	// LockTimeout is how long [Open] waits for a file that is open elsewhere; 0 means
	// [DefaultLockTimeout]. It does not wait if LockTimeout is negative.
	LockTimeout time.Duration

	// FileMode is the mode of a file that [Open] creates, before umask; 0 means 0600.
	FileMode fs.FileMode

	// NoVerify limits the check of [Open] to the meta pages and the size of the file, and makes
	// [New] check nothing. By default Open reads the whole file and checks every page and checksum,
	// which takes some 15 ms for 100,000 buckets and 0.2 s for a million. Without the check, a
	// damaged record is found when it is used, missing buckets are found only by [Store.Verify],
	// and a page that refers to a wrong page can end the program in bbolt.
	NoVerify bool

	// SyncEvery has [Open] sync the journal at this interval, and not for each answer; 0 syncs it
	// for each answer. The journal is written before the answer, so a kill of the program loses
	// nothing. When the machine fails, all that was acknowledged since the last sync that returned
	// may be lost: the decisions of about SyncEvery and the time of a sync. The earlier decisions
	// are kept, in their order. A lost fill gives its room back. If a sync fails, the store refuses
	// all work with [store.ErrMisconfigured] until it is closed and opened again.
	//
	// SyncEvery needs a journal: [New] refuses it, and so does Open with NoJournal. Package
	// boltledger refuses a store that has it, because money must not be forgotten.
	SyncEvery time.Duration

	// NoJournal makes [Open] do without a journal. A store then needs no second file, keeps no
	// bucket in memory, and syncs the file twice for each commit. Stores of [New] never have a
	// journal.
	NoJournal bool

	// LogSize is the size of the journal in bytes; 0 means [DefaultLogSize]. The file has this size
	// from the beginning, and takes room on the disk as the journal fills. Up to two halves of
	// changed buckets are kept in memory, some 250 bytes each. A smaller journal needs less memory,
	// and writes each page of the file more often. A store that finds a journal goes on with it as
	// it is. LogSize is at least 64 KiB. Stores without a journal ignore it.
	LogSize int64

	// PruneEvery is the interval at which a goroutine removes empty buckets, until Close; 0 means
	// [DefaultPruneEvery], and a negative interval means never. Prune keeps a bucket for MaxSkew
	// after it is empty, so pruning more often than that finds little. The interval counts on the
	// process's clock, also if Clock is set.
	PruneEvery time.Duration

	// Name is the name of brim's bbolt bucket in an application's database, for [New]; "" means
	// "brim". A small second bbolt bucket is called Name + ".meta". Open always uses the
	// default.
	Name string

	// Logger is told of damage, of stored times that are not believed, of jumps of the wall clock
	// by more than MaxSkew, of compactions and of pruning at intervals. Nil means silence.
	Logger *slog.Logger

	// Trace is told of each flush to the journal or, without a journal, of each commit: how many
	// requests shared it, how long it took, and why it failed.
	Trace store.Trace

	logSegment int64 // of the journal, in bytes; 0 means half of LogSize; for tests
}

const (
	defaultName = kv.DefaultTable
	minLogSize  = 64 << 10
	maxLogSize  = 2 * kv.MaxSegment
)

var errSyncEvery = errors.New("SyncEvery needs a journal, which a store with NoJournal and a store of New do not have; leave it 0")

// segment returns the size of a segment of the journal, which has two; 0 means the default.
func (o *Options) segment() int64 { return cmp.Or(o.logSegment, o.LogSize/2&^4095) }

// withDefaults returns a copy of o, which may be nil, with its zero fields filled in.
func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	switch {
	case full.MaxSkew < 0:
		return full, errors.New("MaxSkew is negative; it must be positive, or 0 for the default")
	case full.SyncEvery < 0:
		return full, errors.New("SyncEvery is negative; it must be positive, or 0 to sync before each answer")
	case full.SyncEvery > 0 && full.NoJournal:
		return full, errSyncEvery
	case full.LogSize != 0 && full.LogSize < minLogSize:
		return full, errors.New("LogSize is less than 64 KiB; it must be more, or 0 for the default")
	case full.LogSize > maxLogSize:
		return full, errors.New("LogSize is more than 1 GiB")
	case len(full.Name) > 255:
		return full, errors.New("Name is longer than 255 bytes")
	}
	full.MaxSkew = cmp.Or(full.MaxSkew, store.DefaultMaxSkew)
	full.LockTimeout = cmp.Or(full.LockTimeout, DefaultLockTimeout)
	full.FileMode = cmp.Or(full.FileMode, 0o600)
	full.PruneEvery = cmp.Or(full.PruneEvery, DefaultPruneEvery)
	full.Name = cmp.Or(full.Name, defaultName)
	if full.Logger == nil {
		full.Logger = slog.New(slog.DiscardHandler)
	}
	return full, nil
}
