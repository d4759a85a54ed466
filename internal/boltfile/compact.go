package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// Compact rewrites the file without the pages that are no longer used, and returns its size in
// bytes before and after.
//
// The new file is written beside the old file, synced, checked, and renamed over it: a process
// that is killed at any moment leaves one of the two, whole. Both are locked meanwhile. Readers
// go on and writers wait. If another file stands at the path by then, Compact leaves it alone
// and fails; see swap. After an error the old file stays in use, unless the error says
// otherwise. A joined File answers [errors.ErrUnsupported].
func (f *File) Compact(ctx context.Context) (before, after int64, err error) {
	if !f.owned {
		return 0, 0, fmt.Errorf("%w for a store made by New: the database is the application's", errors.ErrUnsupported)
	}
	if err := f.Lock(ctx); err != nil {
		return 0, 0, err
	}
	defer f.Unlock()
	if err := f.Usable(); err != nil {
		return 0, 0, err
	}
	if Mounted(f.path) {
		return 0, 0, errMounted
	}
	if !stands(f.file, f.path) {
		return 0, 0, errReplaced
	}
	old, err := f.file.Stat()
	if err != nil {
		return 0, 0, FileError(err)
	}
	file, temp, err := newTemp(f.fs, f.path, 0o600)
	if err != nil {
		return 0, 0, FileError(hideTemp(err, temp, f.path))
	}
	db, err := f.copyTo(ctx, file, old)
	if err != nil {
		_ = f.fs.Remove(temp)
		_ = file.Close()
		return 0, 0, err
	}
	if err := f.replace(file, temp, db); err != nil {
		return 0, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, 0, FileError(err)
	}
	f.options.Logger.Info("bolt: compacted", "bytes_before", old.Size(), "bytes_after", info.Size())
	return old.Size(), info.Size(), nil
}

// copyTo writes the new file and syncs and checks it. The file gets the owner and the mode of the
// old. After an error, the file is of no more use.
func (f *File) copyTo(ctx context.Context, file vfs.File, old os.FileInfo) (db *bbolt.DB, err error) {
	defer func() {
		if err != nil && db != nil {
			_ = guard(db.Close)
		}
	}()
	// An operator who compacts as root must not lock out the program that owns the file.
	if err := resemble(file, old); err != nil {
		return nil, FileError(err)
	}
	if db, err = openBolt(f.fs, file, 0, mapSize); err != nil {
		return nil, err
	}
	from, err := f.begin(false)
	if err != nil {
		return db, err
	}
	err = copyBuckets(ctx, from, db)
	f.rollback(from)
	if err != nil {
		return db, err
	}
	if err := file.Sync(); err != nil {
		return db, Failed(err.Error(), err)
	}
	db.NoSync, db.NoGrowSync = false, false
	// Damage in the old file has been copied, too. The new file takes over only if Open takes it.
	return db, verifyAll(ctx, file, f.layout.NewCheck())
}

const (
	// copyBatch is the number of keys that are copied in one transaction, which keeps them in
	// memory.
	copyBatch = 50_000
	// copyFill leaves little room in pages, because keys are copied in order.
	copyFill = 0.95
)

// copyBuckets copies all buckets, those of other packages included. It makes the new database sync
// nothing: until the caller syncs it once, nobody relies on it.
func copyBuckets(ctx context.Context, from *bbolt.Tx, to *bbolt.DB) error {
	to.NoSync, to.NoGrowSync = true, true
	err := guard(func() error {
		names := from.Cursor()
		for name, _ := names.First(); name != nil; name, _ = names.Next() {
			if err := copyBucket(ctx, name, from.Bucket(name), to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) && ctx.Err() == nil {
		return Failed(err.Error(), err)
	}
	return err
}

// copyBucket copies one bucket, its sequence number included.
func copyBucket(ctx context.Context, name []byte, from *bbolt.Bucket, to *bbolt.DB) error {
	c := from.Cursor()
	key, value := c.First()
	for first := true; first || key != nil; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := to.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			b.FillPercent = copyFill
			for n := 0; key != nil && n < copyBatch; key, value = c.Next() {
				if value == nil {
					return Damagef("a bucket in the bucket %q does not belong there", name)
				}
				if err := b.Put(key, value); err != nil {
					return err
				}
				n++
			}
			return b.SetSequence(from.Sequence())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replace puts the new file in the place of the old.
func (f *File) replace(file vfs.File, temp string, db *bbolt.DB) error {
	err := f.rename(temp)
	if err != nil {
		if stands(file, temp) { // nobody else's file is removed
			_ = f.fs.Remove(temp)
		}
		_ = guard(db.Close)
		return err
	}
	// Until the new name is durable, a power failure can bring back the old file: nothing may be
	// acknowledged.
	if err = f.fs.SyncDir(filepath.Dir(f.path)); err != nil {
		f.Refuse(fmt.Sprintf("the compacted file may not last (%v); close the store and open it again", err))
		err = Failed(fmt.Sprintf("the file was replaced, but its name could not be synced: %v", err), err)
	} else if stands(f.file, temp) {
		_ = os.Remove(temp) // after an error, the next Open removes it
	}
	f.lock() // readers of the old file end first
	old := f.db
	f.db, f.file = db, file
	f.unlock()
	if cerr := guard(old.Close); cerr != nil {
		f.options.Logger.Warn("bolt: closing the file that was compacted", "error", cerr)
	}
	return err
}

// rename gives the file at temp the place of the old file, and of no other.
func (f *File) rename(temp string) error {
	if !stands(f.file, f.path) {
		return errReplaced
	}
	return f.swap(temp)
}

var errReplaced = Misconfigured("the file was moved or replaced since it was opened, so nothing was compacted; "+
	"close the store and open the file that is meant", nil)

// swap exchanges the names of the new file and of the old. If another file has taken the path since
// rename looked, that file is then under the temporary name, and swap gives it its name back. Where
// the system cannot exchange names, a file that takes the path between the look and the renaming is
// replaced.
func (f *File) swap(temp string) error {
	err := f.fs.Exchange(temp, f.path)
	if errors.Is(err, errors.ErrUnsupported) {
		err = f.fs.Rename(temp, f.path)
	} else if err == nil && !stands(f.file, temp) {
		if err = f.fs.Exchange(temp, f.path); err == nil {
			return errReplaced
		}
		return Misconfigured(fmt.Sprintf("another file took the path while it was compacted; it is at %s now", temp), err)
	}
	if err != nil {
		return FileError(hideTemp(err, temp, f.path))
	}
	return nil
}
