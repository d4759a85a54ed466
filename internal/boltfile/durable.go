package boltfile

import (
	"errors"
	"os"
	"time"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// MakeDurable makes the last commit of a joined File durable, as Open does for a file of its own:
// bbolt syncs nothing when it opens a database, and goes on after a sync that failed. MakeDurable
// waits for the write transaction of the application that is open.
//
// MakeDurable can do nothing for a database that is read-only, that does not sync, or whose file
// has been moved since it was opened.
func (f *File) MakeDurable() error {
	if !lockable || f.owned || f.db.IsReadOnly() || f.db.NoSync {
		return nil // without lockable, closing a second descriptor can end bbolt's lock
	}
	tx, err := f.begin(true)
	if err != nil {
		return err
	}
	defer f.rollback(tx)
	file, err := f.fs.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return nil //nolint:nilerr // the file has been moved
	}
	defer func() { _ = file.Close() }()
	if lock(file.Handle(), time.Time{}) == nil {
		return nil // bbolt holds the lock of the database's own file
	}
	rewritten, err := rewriteMeta(file, func(m meta) bool { return m.txid+1 == uint64(tx.ID()) })
	if err == nil && rewritten {
		err = file.Sync()
	}
	if err != nil {
		return FileError(err)
	}
	return nil
}

// rewriteMeta writes the newest meta page once more, as it is, if wanted is nil or agrees. After a
// sync that failed, Linux takes the pages for written, so that a later sync of the same pages
// succeeds and proves nothing. No other page needs this: bbolt writes the meta page when all other
// pages that count are synced.
func rewriteMeta(file vfs.File, wanted func(meta) bool) (rewritten bool, err error) {
	m, err := metaOf(file)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return false, nil // the check of the file reports it, and leaves the file as it is
	case err != nil:
		return false, err
	case wanted != nil && !wanted(m):
		return false, nil
	}
	page, offset := make([]byte, m.pageSize), int64(m.txid%2)*int64(m.pageSize)
	if _, err := file.ReadAt(page, offset); err != nil {
		return false, readError(err)
	}
	if _, err := file.WriteAt(page, offset); err != nil {
		return false, FileError(err)
	}
	return true, nil
}
