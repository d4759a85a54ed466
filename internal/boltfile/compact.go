package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// Compact rewrites the file without the pages that are no longer used, and returns its size in
// bytes before and after.
//
// The new file is written beside the old file, synced, checked, and renamed over it: a process
// that is killed at any moment leaves one of the two, whole. Both are locked meanwhile. Readers
// go on and writers wait. After an error the old file stays in use, unless the error says
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
	old, err := f.file.Stat()
	if err != nil {
		return 0, 0, fileError(err)
	}
	file, db, err := f.copyFile(ctx, old)
	if err != nil {
		return 0, 0, err
	}
	if err := f.replace(file, db); err != nil {
		return 0, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, 0, fileError(err)
	}
	f.options.Logger.Info("bolt: compacted", "bytes_before", old.Size(), "bytes_after", info.Size())
	return old.Size(), info.Size(), nil
}

// compactPath is the path that a compaction writes to. The holder of the file's lock may remove
// it.
func (f *File) compactPath() string { return f.path + ".compact" }

// copyFile writes the new file, locked, synced and checked, with the owner and the mode of the
// old.
func (f *File) copyFile(ctx context.Context, old os.FileInfo) (file *os.File, db *bbolt.DB, err error) {
	file, err = os.OpenFile(f.compactPath(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fileError(err)
	}
	defer func() {
		if err != nil {
			if db != nil {
				_ = guard(db.Close)
			}
			_ = file.Close()
			_ = os.Remove(f.compactPath())
		}
	}()
	if err := lock(file, time.Time{}); err != nil {
		return nil, nil, fileError(err)
	}
	// An operator who compacts as root must not lock out the program that owns the file.
	if err := resemble(file, old); err != nil {
		return nil, nil, fileError(err)
	}
	db, err = openBolt(file, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := f.copyBuckets(ctx, db); err != nil {
		return nil, db, err
	}
	// Damage in the old file has been copied, too: the new file does not take over then.
	info, err := file.Stat()
	if err == nil {
		err = verifyPages(ctx, file, info, f.layout, false)
	}
	return file, db, err
}

const (
	// copyBatch is the number of keys that are copied in one transaction, which keeps them in
	// memory.
	copyBatch = 50_000
	// copyFill leaves little room in pages, because keys are copied in order.
	copyFill = 0.95
)

// copyBuckets copies all buckets, those of other packages included, and syncs the new database
// once, at the end: until then nobody relies on it.
func (f *File) copyBuckets(ctx context.Context, to *bbolt.DB) error {
	from, err := f.begin(false)
	if err != nil {
		return err
	}
	defer f.rollback(from)
	to.NoSync, to.NoGrowSync = true, true
	err = guard(func() error {
		names := from.Cursor()
		for name, _ := names.First(); name != nil; name, _ = names.Next() {
			if err := copyBucket(ctx, name, from.Bucket(name), to); err != nil {
				return err
			}
		}
		return to.Sync()
	})
	to.NoSync, to.NoGrowSync = false, false
	if err != nil && !errors.Is(err, store.ErrCorrupt) && ctx.Err() == nil {
		return Unavailable(err.Error(), err)
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
func (f *File) replace(file *os.File, db *bbolt.DB) error {
	if err := os.Rename(f.compactPath(), f.path); err != nil {
		_ = guard(db.Close)
		_ = os.Remove(f.compactPath())
		return fileError(err)
	}
	// Until the new name is durable, a power failure can bring back the old file: nothing may be
	// acknowledged.
	err := syncDir(filepath.Dir(f.path))
	if err != nil {
		f.refuse(fmt.Sprintf("the compacted file may not last (%v); close the store and open it again", err))
		err = Unavailable(fmt.Sprintf("the file was replaced, but its name could not be synced: %v", err), err)
	}
	f.mu.Lock() // readers of the old file end first
	old := f.db
	f.db, f.file = db, file
	f.mu.Unlock()
	if cerr := guard(old.Close); cerr != nil {
		f.options.Logger.Warn("bolt: closing the file that was compacted", "error", cerr)
	}
	return err
}
