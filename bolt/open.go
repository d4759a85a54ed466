package bolt

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/store"
)

// Open opens the store in the file at path, and creates the file if there is none.
//
// The file belongs to this store until it is closed. If the file is open elsewhere, in this
// process or another, Open waits for [Options.LockTimeout] and then answers
// [store.ErrUnavailable]. A file that is cut short, empty, or not brim's is [store.ErrCorrupt] and
// left as it is. So is a file with damage that can hide a bucket, in a key, a page or the totals;
// the remedy is the last backup, see [Store.Backup]. If only the records of some buckets are damaged,
// Open succeeds and logs their number: calls that need one of these buckets answer
// [store.ErrCorrupt], and a Delete of the bucket mends it. A file written by a newer version of brim
// is [errors.ErrUnsupported].
//
// # Journal
//
// The store has a journal beside the file, unless [Options.NoJournal] is set; the package comment
// describes it. If a kill has left a journal, Open replays it, which takes about half a second at
// most. The file records whether a journal belongs to it, and the ID of that journal. Open refuses
// a file whose journal is missing, a file beside the journal of another file, and a journal whose
// file is missing. The error names the file to put back. The path may be a symbolic link to a file;
// a link or a directory in the place of the journal is refused.
func Open(path string, o *Options) (*Store, error) {
	s, err := open(path, o, o == nil || !o.NoJournal)
	if err != nil {
		return nil, err
	}
	s.startPruner(s.Prune)
	return s, nil
}

// open opens the file at path for a store, with a journal or without.
func open(path string, o *Options, journaled bool) (*Store, error) {
	op := "open " + filepath.Base(path)
	full, err := o.withDefaults()
	if err == nil {
		err = orphaned(path)
	}
	if err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	l := layoutOf(defaultName)
	file, err := boltfile.Open(path, l, boltfile.Options{
		LockTimeout: full.LockTimeout,
		FileMode:    full.FileMode,
		NoVerify:    full.NoVerify,
		Logger:      full.Logger,
	})
	if err != nil {
		return nil, store.Wrap(backend, op, boltfile.WithRemedy(err, boltfile.Restore))
	}
	s, err := newStore(file, l, full, journaled)
	if err != nil {
		_ = file.Close()
		return nil, store.Wrap(backend, op, boltfile.WithRemedy(err, boltfile.Restore))
	}
	return s, nil
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
	if err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	if db == nil {
		return nil, store.Wrap(backend, op, boltfile.Unavailable("the database is nil; open it first", nil))
	}
	l := layoutOf(full.Name)
	file := boltfile.Join(db, l, boltfile.Options{NoVerify: full.NoVerify, Logger: full.Logger})
	s, err := newStore(file, l, full, false)
	if err == nil {
		if err = file.CheckBuckets(l.Buckets(), l.NewCheck()); err != nil {
			_ = s.Close()
		}
	}
	if err != nil {
		return nil, store.Wrap(backend, op, boltfile.WithRemedy(err, boltfile.RestoreJoined))
	}
	s.startPruner(s.Prune)
	return s, nil
}

// newStore returns a store over file, whose clock goes on from the highest time in the file and in
// the journal, unless that is more than MaxSkew ahead of the wall clock.
func newStore(file *boltfile.File, l layout, o Options, journaled bool) (*Store, error) {
	highest, err := prepare(file, l)
	if err != nil {
		return nil, err
	}
	s := &Store{
		options: o,
		layout:  l,
		file:    file,
		clock: clock.New(clock.Options{
			Source: o.Clock, MaxSkew: o.MaxSkew, Backend: backend, Logger: o.Logger,
		}),
		seed: maphash.MakeSeed(),
	}
	s.view = *s.newView()
	if err := s.recover(journaled, highest); err != nil {
		return nil, err
	}
	if l := s.logged; l != nil {
		s.combiner, err = l.newCombiner()
		go l.run()
	} else {
		s.combiner, err = newCombiner(s)
	}
	return s, err
}

// resume makes the clock of the store go on from highest.
func (s *Store) resume(highest int64) {
	if ahead := s.clock.Resume(highest); ahead > 0 {
		s.options.Logger.Warn("bolt: the file was last written at a time further ahead of the clock than MaxSkew; "+
			"the store goes by the clock", "ahead", ahead, "max_skew", s.options.MaxSkew)
	}
}

// noTime is the highest time written if there is none. Times before 1970 are negative.
const noTime = math.MinInt64

// prepare checks the store's bbolt buckets, or creates them in an application's database. It
// returns the highest time that the store has written, or noTime.
func prepare(file *boltfile.File, l layout) (highest int64, err error) {
	highest = noTime
	if err := file.Settle(); err != nil {
		return 0, err
	}
	found := false
	look := func(tx *bbolt.Tx) error {
		records, meta, err := l.table.Find(tx)
		if records == nil || err != nil {
			return err
		}
		found = true
		if err := l.checkFormat(meta.Get(formatKey)); err != nil {
			return err
		}
		_, _, t, err := l.open(tx)
		if t.Time != 0 {
			highest = t.Time
		}
		return err
	}
	if err := file.View(look); err != nil || found {
		return highest, err
	}
	if file.Owned() {
		return 0, boltfile.Damagef("it is a bbolt file, but its bucket %q is missing; "+
			"to add buckets to an application's database use New", l.table.Name())
	}
	if err := file.Lock(context.Background()); err != nil {
		return 0, err
	}
	defer file.Unlock()
	err = file.Update(func(tx *bbolt.Tx) (changed bool, err error) {
		err = file.Guard(func() error {
			if err := look(tx); err != nil || found { // another store may have created them by now
				return err
			}
			changed = true
			return l.Create(tx)
		})
		if changed && err != nil {
			err = boltfile.Unavailable(fmt.Sprintf("creating the buckets: %v", err), err)
		}
		return changed, err
	})
	return highest, err
}
