package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

// allocSize is by how much the file grows at once, over a megabyte: bbolt's 16 MiB would be most of a small store.
const allocSize = 1 << 20

// Open opens the store in the file at path, and creates the file if there is none.
//
// The file belongs to this store until it is closed. One that is open elsewhere, in this process or another, is waited for
// as long as [Options.LockTimeout] says; then the error is [store.ErrUnavailable] and names who to look for. A file that is
// damaged, cut short, empty, or not brim's is [store.ErrCorrupt] and left as it is; one written by a newer version of brim is
// [errors.ErrUnsupported].
//
// Writers sync the file twice for each commit: a disk that lies about syncing can lose, at a power failure, what
// was acknowledged.
func Open(path string, o *Options) (*Store, error) {
	op := "open " + filepath.Base(path)
	full, err := o.withDefaults()
	if err != nil {
		return nil, store.Wrap(backend, op, err)
	}
	s, err := open(path, full)
	return s, store.Wrap(backend, op, err)
}

func open(path string, o Options) (*Store, error) {
	s, err := newStore(o, layoutOf(defaultName))
	if err != nil {
		return nil, err
	}
	s.owned, s.given = true, path
	file, err := s.openFile()
	if err != nil {
		return nil, err
	}
	if err := s.openDB(file); err != nil {
		return nil, err
	}
	// With the lock in hand, nobody else can be compacting this file: what is left of a compaction was cut short.
	_ = os.Remove(s.compactPath())
	return s, nil
}

// openFile opens the file, or creates it, and takes its lock.
func (s *Store) openFile() (*os.File, error) {
	for created := false; ; {
		file, err := s.openExisting()
		switch {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case created:
			return nil, unavailable("it disappeared again; is it a symbolic link to nowhere?", err)
		}
		if err := createFile(s.given, s.layout, s.options.FileMode); err != nil {
			return nil, fileError(err)
		}
		created = true
	}
}

// openExisting opens the file and takes its lock. Whoever had it may have put another in its place meanwhile, by
// compacting it; then that is the file to wait for.
func (s *Store) openExisting() (*os.File, error) {
	deadline := time.Now().Add(s.options.LockTimeout)
	for {
		path, err := filepath.EvalSymlinks(s.given)
		if err != nil {
			return nil, fileError(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, fileError(err)
		}
		info, err := file.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = unavailable("it is not a regular file; give the path of one", nil)
		}
		if err == nil {
			err = lockFile(file, deadline)
			if errors.Is(err, errLocked) {
				err = lockedError(s.options.LockTimeout)
			}
		}
		var now fs.FileInfo
		if err == nil {
			now, err = os.Stat(path)
			if err == nil && os.SameFile(info, now) {
				s.path = path
				return file, nil
			}
		}
		_ = file.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fileError(err)
		}
	}
}

// lockedError says who to look for.
func lockedError(waited time.Duration) error {
	after := ""
	if waited > 0 {
		after = " after " + waited.String()
	}
	return unavailable("locked by another process"+after+"; close it, or share the bucket through PostgreSQL", errLocked)
}

// openDB checks the file, which is locked, and has bbolt open it. It takes over file, and closes it if there is an error.
func (s *Store) openDB(file *os.File) (err error) {
	s.file = file
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	if lockable { // otherwise bbolt locks the file below, and it is checked after that
		if err := s.verifyFile(); err != nil {
			return err
		}
	}
	db, err := openBolt(file, s.options.LockTimeout)
	if err != nil {
		return err
	}
	s.db = db
	if !lockable {
		err = s.verifyFile()
	}
	if err == nil {
		err = s.prepare()
	}
	if err != nil && !s.stuck.Load() {
		_ = guard(db.Close)
	}
	return err
}

// openBolt has bbolt open file, which it closes with the database.
func openBolt(file *os.File, timeout time.Duration) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err = guard(func() (err error) {
		db, err = bbolt.Open(file.Name(), 0, &bbolt.Options{
			Timeout:      max(timeout, time.Millisecond), // 0 would be for ever
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return file, nil },
		})
		return err
	})
	switch {
	case err == nil:
		db.AllocSize = allocSize
		return db, nil
	case isPanic(err):
		return nil, err
	case errors.Is(err, berrors.ErrTimeout):
		return nil, lockedError(timeout)
	}
	return nil, unavailable(err.Error(), err)
}

// prepare makes sure that the database has brim's buckets, and sets the clock.
func (s *Store) prepare() error {
	var found bool
	var t totals
	look := func(tx *bbolt.Tx) error {
		return guard(func() error {
			records, meta, err := s.layout.find(tx)
			if records == nil || err != nil {
				return err
			}
			found = true
			if err := checkFormat(meta.Get(formatKey)); err != nil {
				return err
			}
			_, _, t, err = s.layout.open(tx)
			return err
		})
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := s.begin(false)
	if err != nil {
		return err
	}
	err = look(tx)
	s.rollback(tx)
	switch {
	case err != nil:
		return err
	case !found && s.owned:
		return damagef("it is a bbolt file, but its bucket %q is missing; to add buckets to an application's database use New",
			s.layout.records)
	case !found:
		if err := s.create(look, &found); err != nil {
			return err
		}
	}
	s.resume(t.time)
	return nil
}

// create makes brim's buckets in an application's database, unless another store has done so by now.
func (s *Store) create(look func(*bbolt.Tx) error, found *bool) error {
	if s.db.IsReadOnly() {
		return unavailable("the database is open for reading only; open it for writing", nil)
	}
	tx, err := s.begin(true)
	if err != nil {
		return err
	}
	defer s.rollback(tx)
	if err := look(tx); err != nil || *found {
		return err
	}
	if err := guard(func() error { return s.layout.create(tx) }); err != nil {
		return unavailable(fmt.Sprintf("creating the buckets: %v", err), err)
	}
	return s.commit(tx)
}

// resume goes on from the highest time that an earlier run has written, if that can be believed.
func (s *Store) resume(highest int64) {
	if ahead := s.clock.Resume(highest, s.options.MaxSkew); ahead > 0 {
		s.options.Logger.Warn("bolt: the file was last written at a time further ahead of the clock than MaxSkew; going by the clock",
			"ahead", ahead, "max_skew", s.options.MaxSkew)
	}
}

// fileError makes an error about the file a [store.ErrUnavailable] with a message that says what to do.
func fileError(err error) error {
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrCorrupt):
		return err
	case errors.Is(err, syscall.EISDIR):
		return unavailable("it is a directory; give the path of a file", err)
	case errors.Is(err, fs.ErrPermission):
		return unavailable("permission denied; the file must be readable and writable, and its directory writable to create it", err)
	case errors.Is(err, fs.ErrNotExist):
		return unavailable("no such file or directory; the directory must be there", err)
	}
	return unavailable(err.Error(), err)
}
