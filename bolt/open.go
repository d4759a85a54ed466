package bolt

import (
	"context"
	"fmt"
	"hash/maphash"
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
// [store.ErrUnavailable]. A file that is damaged, cut short, empty, or not brim's is
// [store.ErrCorrupt] and left as it is. A file written by a newer version of brim is
// [errors.ErrUnsupported].
//
// Each commit syncs the file twice. If the disk lies about syncing, a power failure can lose
// acknowledged decisions.
func Open(path string, o *Options) (*Store, error) {
	op := "open " + filepath.Base(path)
	full, err := o.withDefaults()
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
		return nil, store.Wrap(backend, op, err)
	}
	s, err := newStore(file, l, full)
	if err != nil {
		_ = file.Close()
		return nil, store.Wrap(backend, op, err)
	}
	return s, nil
}

// New puts buckets into a database that the application has open. Close then ends the store and
// leaves db open; the application closes db afterwards. New ignores LockTimeout, FileMode and
// NoVerify.
//
// New creates the store's bbolt buckets if db has none. The application must leave their content
// alone. It should keep its transactions short: a write transaction makes all callers of the
// store wait, and a read transaction keeps bbolt from using freed pages again.
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
	s, err := newStore(boltfile.Join(db, l, full.Logger), l, full)
	return s, store.Wrap(backend, op, err)
}

// newStore returns a store over file, whose clock goes on from the highest time in the file.
func newStore(file *boltfile.File, l layout, o Options) (*Store, error) {
	highest, err := prepare(file, l)
	if err != nil {
		return nil, err
	}
	s := &Store{
		options: o,
		layout:  l,
		file:    file,
		clock:   clock.New(o.Clock),
		seed:    maphash.MakeSeed(),
	}
	if ahead := s.clock.Resume(highest, o.MaxSkew); ahead > 0 {
		o.Logger.Warn("bolt: the file was last written at a time further ahead of the clock than MaxSkew; "+
			"the store goes by the clock", "ahead", ahead, "max_skew", o.MaxSkew)
	}
	s.view.maxSkew, s.view.keepTime = o.MaxSkew, o.Clock == nil
	s.combiner, err = newCombiner(s)
	return s, err
}

// prepare checks the store's bbolt buckets, or creates them in an application's database. It
// returns the highest time that the store has written.
func prepare(file *boltfile.File, l layout) (highest int64, err error) {
	found := false
	look := func(tx *bbolt.Tx) error {
		records, meta, err := l.find(tx)
		if records == nil || err != nil {
			return err
		}
		found = true
		if err := checkFormat(meta.Get(formatKey)); err != nil {
			return err
		}
		_, _, t, err := l.open(tx)
		highest = t.time
		return err
	}
	if err := file.View(look); err != nil || found {
		return highest, err
	}
	if file.Owned() {
		return 0, boltfile.Damagef("it is a bbolt file, but its bucket %q is missing; "+
			"to add buckets to an application's database use New", l.records)
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
