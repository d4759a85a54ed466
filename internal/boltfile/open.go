package boltfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/internal/vfs"
)

// The file grows by a quarter of its size, from one of these steps to the other. bbolt's step of
// 16 MiB would be most of a small file.
const (
	leastStep = 32 << 10
	mostStep  = 1 << 20
)

// Open opens the file at path, or creates it with the buckets of l, and takes its lock.
//
// A file that is open elsewhere, in this process or another, is [store.ErrUnavailable] after
// Options.LockTimeout. So is a disk that is full or fails. A missing directory or right, a file
// that is a mount point of its own, and a path that is no file's, is [store.ErrMisconfigured]. A
// file that is damaged, cut short, empty, or not of layout l is [store.ErrCorrupt] and left as it
// is.
func Open(path string, l Layout, o Options) (*File, error) {
	given, err := filepath.Abs(path) // the program may change its directory later
	if err != nil {
		return nil, FileError(err)
	}
	f := &File{options: o, layout: l, fs: o.FS, owned: true, given: given, writer: make(chan struct{}, 1)}
	if f.fs == nil {
		f.fs = vfs.Default
	}
	if err := f.openFile(); err != nil {
		return nil, err
	}
	if err := f.openDB(); err != nil {
		return nil, err
	}
	f.sweep()
	return f, nil
}

// openFile opens the file, or creates it, and takes its lock.
func (f *File) openFile() error {
	for created := false; ; created = true {
		err := f.openExisting()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case created:
			return Misconfigured("it disappeared again; is it a symbolic link to nowhere?", err)
		}
		if err := create(f.fs, f.given, f.layout, f.options.FileMode); err != nil {
			return FileError(err)
		}
	}
}

// openExisting opens the file and takes its lock. If the process that held the lock has replaced
// the file meanwhile, by compacting it, openExisting goes on with the new file.
func (f *File) openExisting() error {
	deadline := time.Now().Add(f.options.LockTimeout)
	for {
		path, err := filepath.EvalSymlinks(f.given)
		if err != nil {
			return FileError(err)
		}
		if Mounted(path) {
			return errMounted
		}
		file, err := f.fs.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return FileError(err)
		}
		info, err := lockRegular(file, deadline, f.options.LockTimeout)
		var now fs.FileInfo
		if err == nil {
			now, err = os.Stat(path)
			if err == nil && os.SameFile(info, now) {
				f.path, f.file = path, file
				return nil
			}
		}
		_ = file.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return FileError(err)
		}
	}
}

// lockRegular takes the lock of a file that must be a regular one, and waits for it until deadline.
func lockRegular(file vfs.File, deadline time.Time, timeout time.Duration) (info fs.FileInfo, err error) {
	info, err = file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err == nil {
		err = lock(file.Handle(), deadline)
	}
	if errors.Is(err, errLocked) {
		err = lockedError(timeout)
	}
	return info, err
}

// errMounted refuses a bind mount of one file. The journal beside it would be in another file
// system, which ends with the container, and no other file can take its place.
var errMounted = Misconfigured("the file is a mount point of its own, so its journal would not be kept with it; "+
	"mount its directory instead", nil)

var errNotRegular = Misconfigured("it is not a regular file; give the path of one", nil)

// lockedError tells the caller whom to look for.
func lockedError(waited time.Duration) error {
	after := ""
	if waited > 0 {
		after = " after " + waited.String()
	}
	msg := "locked by another process, or opened twice by this one" + after +
		"; close it there, or take SQLite or PostgreSQL, which processes share"
	return Failed(msg, errLocked)
}

// openDB checks the file, which is locked, and has bbolt open it. It closes the file if there is
// an error.
func (f *File) openDB() (err error) {
	defer func() {
		if err != nil {
			_ = f.file.Close()
		}
	}()
	if lockable { // elsewhere bbolt locks the file, so it is checked after that
		if err := f.makeDurable(); err != nil {
			return err
		}
	}
	f.db, err = openBolt(f.fs, f.file, f.options.LockTimeout, mapSize)
	if err != nil || lockable {
		return err
	}
	if err := f.makeDurable(); err != nil {
		_ = guard(f.db.Close)
		return err
	}
	return nil
}

// makeDurable makes the content and the name of the file durable, and checks the file. An earlier
// process may have ended between a write and its sync, or a sync may have failed. An answer that
// counts on this file must not be given while a power failure can still bring back an older one.
func (f *File) makeDurable() error {
	if _, err := rewriteMeta(f.file, nil); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return FileError(err)
	}
	// The name is not this program's if it may not read the directory.
	if err := f.fs.SyncDir(filepath.Dir(f.path)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return FileError(err)
	}
	return f.verifyFile()
}

// openBolt has bbolt open file, which bbolt then closes with the database. mapped is the number of
// bytes of address space that the file gets at first. To map more of a file that has grown, bbolt
// waits for all readers, a Backup included, and meanwhile nobody can begin to read.
func openBolt(fsys vfs.FS, file vfs.File, timeout time.Duration, mapped int) (db *bbolt.DB, err error) {
	err = guard(func() (err error) {
		db, err = bbolt.Open(file.Handle().Name(), 0, &bbolt.Options{
			Timeout:         max(timeout, time.Millisecond), // 0 would be for ever
			NoStatistics:    true,
			InitialMmapSize: mapped,
			OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return file.Handle(), nil },
		})
		return err
	})
	switch {
	case err == nil:
		db.AllocSize = leastStep
		fsys.Attach(file, db)
		return db, nil
	case isPanic(err):
		return nil, err
	case errors.Is(err, berrors.ErrTimeout):
		return nil, lockedError(timeout)
	}
	return nil, Failed(err.Error(), err)
}
