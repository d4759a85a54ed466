package bolt

import (
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// Open opens the store in the file at path, and creates the file if there is none.
//
// The file belongs to this store until it is closed. If the file is open elsewhere, in this process
// or another, Open waits for [Options.LockTimeout] and then answers [store.ErrUnavailable]. So it
// does on a disk that is full or fails. A missing directory or right, a path that is no file's, and
// an option out of its range is [store.ErrMisconfigured]; so is a file without its journal. A file
// that is cut short, empty, or not brim's is [store.ErrCorrupt] and left as it is. So is a file
// with damage that can hide a bucket, in a key, a page or the totals; the remedy is the last
// backup, see [Store.Backup]. If only the records of some buckets are damaged, Open succeeds and
// logs their number: calls that need one of these buckets answer [store.ErrCorrupt], and a Delete
// of the bucket mends it. A file written by a newer version of brim is [store.ErrMisconfigured] and
// [errors.ErrUnsupported].
//
// # Journal
//
// The store has a journal beside the file, unless [Options.NoJournal] is set; the package comment
// describes it. If a kill has left a journal, Open replays it, which takes about half a second at
// most. The file records whether a journal belongs to it, and the ID of that journal. Open refuses
// a file whose journal is missing, a file beside the journal of another file, and a journal whose
// file is missing. The error names the file to put back. The path may be a symbolic link to a file;
// a link or a directory in the place of the journal is refused. So is a file that is a mount point
// of its own: the journal would be in another file system. Mount its directory instead.
//
// If the file or the journal is removed or replaced while the store is open, the store refuses all
// work with [store.ErrMisconfigured] within a second.
func Open(path string, o *Options) (*Store, error) {
	op := "open " + filepath.Base(path)
	full, err := o.withDefaults()
	if err != nil {
		return nil, store.Wrap(backend, op, boltfile.Misconfigured(err.Error(), err))
	}
	mode := kv.Log
	if full.NoJournal {
		mode = kv.Commit
	}
	s := newStore(full)
	if s.db, err = kv.Open(path, s.engine(defaultName, mode)); err != nil {
		return nil, store.Wrap(backend, op, boltfile.WithRemedy(err, boltfile.Restore))
	}
	return s, s.start(defaultName)
}

// New puts buckets into a database that the application has open. Close then ends the store and
// leaves db open; the application closes db afterwards. New ignores LockTimeout and FileMode.
//
// New checks the store's bbolt buckets as [Open] does, unless [Options.NoVerify] is set, and
// returns the same errors. It cannot check pages, because bbolt has read them before.
//
// New makes the last commit of db durable, because bbolt syncs nothing when it opens a database. So
// it waits for a write transaction that is open. It creates the store's bbolt buckets if db has
// none. The application must leave their content alone. It should keep its transactions short: a
// write transaction makes all callers of the store wait, and a read transaction keeps bbolt from
// using freed pages again.
func New(db *bbolt.DB, o *Options) (*Store, error) {
	const op = "new"
	full, err := o.withDefaults()
	if err == nil && full.SyncEvery > 0 {
		err = errSyncEvery
	}
	if err != nil {
		return nil, store.Wrap(backend, op, boltfile.Misconfigured(err.Error(), err))
	}
	if db == nil {
		return nil, store.Wrap(backend, op, boltfile.Misconfigured("the database is nil; open it first", nil))
	}
	s := newStore(full)
	if s.db, err = kv.Join(db, s.engine(full.Name, kv.Commit)); err != nil {
		return nil, store.Wrap(backend, op, boltfile.WithRemedy(err, boltfile.RestoreDatabase))
	}
	return s, s.start(full.Name)
}

// newStore returns a store without a database.
func newStore(o Options) *Store {
	return &Store{
		options: o, refusals: records.NewRefusals(),
		clock: clock.New(clock.Options{Source: o.Clock, MaxSkew: o.MaxSkew, Backend: backend, Logger: o.Logger}),
	}
}

// engine returns the options of the database.
func (s *Store) engine(table string, mode kv.Mode) kv.Options {
	return kv.Options{
		Table: table, Mode: mode, SyncEvery: s.options.SyncEvery, Segment: s.options.segment(),
		LockTimeout: s.options.LockTimeout, FileMode: s.options.FileMode, NoVerify: s.options.NoVerify,
		Logger: s.options.Logger, Clock: s.clock, IsRecord: boltrecord.Is,
	}
}

// start begins to use the database. The clock goes on from the time of the last change in the file
// and in the journal, unless that is more than MaxSkew ahead of the wall clock.
func (s *Store) start(table string) (err error) {
	s.shared, s.table = s.db, s.db.Table(table)
	if ahead := s.clock.Resume(s.db.Time()); ahead > 0 {
		s.options.Logger.Warn("bolt: the file was last written at a time further ahead of the clock than MaxSkew; "+
			"the store goes by the clock", "ahead", ahead, "max_skew", s.options.MaxSkew)
	}
	if s.combiner, err = s.newCombiner(); err == nil {
		s.pruner = pruner.Start(s.options.PruneEvery, s.Prune, backend, s.options.Logger)
	}
	return err
}
