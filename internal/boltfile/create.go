package boltfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
)

// create makes a file at path with the buckets of l, unless there is a file by then. The file is
// made whole and durable under a temporary name first, so no process ever finds an empty or
// half-made file. If two processes create the file at once, one of them does.
func create(fsys vfs.FS, path string, l Layout, mode fs.FileMode) (err error) {
	file, temp, err := newTemp(fsys, path, mode)
	if err != nil {
		return hideTemp(err, temp, path)
	}
	var db *bbolt.DB
	closeFile := sync.OnceValue(func() error {
		if db == nil {
			return file.Close()
		}
		return db.Close()
	})
	defer func() {
		if !lockable { // such a system may refuse to remove an open file
			_ = closeFile()
		}
		// A rename has taken the temporary name away already.
		if rerr := fsys.Remove(temp); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		// The lock goes last: without it, the temporary file looks like one that was left.
		if cerr := closeFile(); err == nil {
			err = cerr
		}
		err = hideTemp(err, temp, path)
	}()
	if db, err = openBolt(fsys, file, 0, 0); err != nil {
		return err
	}
	if err := db.Update(l.Create); err != nil {
		return err
	}
	if !lockable {
		if err := closeFile(); err != nil {
			return err
		}
	}
	if err := linkNew(fsys, temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// linkNew gives the file at temp the name path, unless there is a file of that name.
func linkNew(fsys vfs.FS, temp, path string) error {
	err := fsys.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// Some file systems have no hard links.
	if rerr := fsys.RenameNew(temp, path); rerr == nil || errors.Is(rerr, fs.ErrExist) {
		return rerr
	}
	return err
}
