package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// Sizes are what a compaction did to the file, in bytes.
type Sizes struct{ Before, After int64 }

// Compact rewrites the file without the pages that are no longer used, and reports its size before and after.
//
// The new file is written beside the old one, synced, and takes its place in one step: a program that is killed at any
// moment finds one of the two, whole. Both are locked all the while, so no other process can slip in between. Reads go on
// meanwhile; writers wait, for about a second per million buckets. If there is an error the old file stays in use, unless
// the error says otherwise.
//
// A store over an application's database cannot be compacted: that is [errors.ErrUnsupported]. On Windows no file can take
// the place of one that is open, and the error is [store.ErrUnavailable].
func (s *Store) Compact(ctx context.Context) (Sizes, error) {
	sizes, err := s.compact(ctx)
	return sizes, store.Wrap(backend, "compact", err)
}

func (s *Store) compact(ctx context.Context) (sizes Sizes, err error) {
	if err := s.check(ctx); err != nil {
		return sizes, err
	}
	if !s.owned {
		return sizes, fmt.Errorf("%w for a store made by New: the database is the application's", errors.ErrUnsupported)
	}
	if err := s.lock(ctx); err != nil {
		return sizes, err
	}
	defer func() { <-s.writer }()
	if s.closed.Load() {
		return sizes, store.ErrClosed
	}
	if err := s.usable(); err != nil {
		return sizes, err
	}
	info, err := s.file.Stat()
	if err != nil {
		return sizes, fileError(err)
	}
	file, db, err := s.copyFile(ctx, info)
	if err != nil {
		return sizes, err
	}
	if err := s.replace(file, db); err != nil {
		return sizes, err
	}
	sizes.Before = info.Size()
	if info, err = file.Stat(); err == nil {
		sizes.After = info.Size()
	}
	s.options.Logger.Info("bolt: compacted", "bytes_before", sizes.Before, "bytes_after", sizes.After)
	return sizes, nil
}

// compactPath is where a compaction writes. Whoever holds the lock on the file may remove what is there.
func (s *Store) compactPath() string { return s.path + ".compact" }

// copyFile writes the new file, locked and synced, with the owner and the mode of the old.
func (s *Store) copyFile(ctx context.Context, old os.FileInfo) (file *os.File, db *bbolt.DB, err error) {
	file, err = os.OpenFile(s.compactPath(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fileError(err)
	}
	defer func() {
		if err != nil {
			if db != nil {
				_ = guard(db.Close)
			}
			_ = file.Close()
			_ = os.Remove(s.compactPath())
		}
	}()
	if err := lockFile(file, time.Time{}); err != nil {
		return nil, nil, fileError(err)
	}
	// An operator who compacts as root must not lock out the program whose file it is.
	if err := resemble(file, old); err != nil {
		return nil, nil, fileError(err)
	}
	db, err = openBolt(file, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := s.copyRecords(ctx, db); err != nil {
		return nil, db, err
	}
	// Whatever the old file has promised, the new one must be able to keep: look before it takes over.
	info, err := file.Stat()
	if err == nil {
		err = verifyPages(file, info, s.layout, false)
	}
	return file, db, err
}

// copyBatch is how many records are copied in one transaction, which holds them in memory.
const copyBatch = 50_000

// copyRecords fills the new database. Only its end is synced: until then it is nobody's.
func (s *Store) copyRecords(ctx context.Context, db *bbolt.DB) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	from, err := s.begin(false)
	if err != nil {
		return err
	}
	defer s.rollback(from)
	db.NoSync, db.NoGrowSync = true, true
	err = guard(func() error {
		records, _, t, err := s.layout.open(from)
		if err != nil {
			return err
		}
		c := records.Cursor()
		key, value := c.First()
		for first := true; first || key != nil; first = false {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := db.Update(func(tx *bbolt.Tx) error {
				if first {
					if err := s.layout.create(tx); err != nil {
						return err
					}
				}
				records, meta, _, err := s.layout.open(tx)
				if err != nil {
					return err
				}
				records.FillPercent = fillAtEnd
				for n := 0; key != nil && n < copyBatch; key, value = c.Next() {
					if err := records.Put(key, value); err != nil {
						return err
					}
					n++
				}
				var buf [totalsSize]byte
				t.encode(&buf)
				return meta.Put(totalsKey, buf[:])
			})
			if err != nil {
				return err
			}
		}
		if err := s.copyOthers(ctx, from, db); err != nil {
			return err
		}
		return db.Sync()
	})
	db.NoSync, db.NoGrowSync = false, false
	if err != nil && !errors.Is(err, store.ErrCorrupt) && ctx.Err() == nil {
		return unavailable(err.Error(), err)
	}
	return err
}

// replace puts the new file in the old one's place.
func (s *Store) replace(file *os.File, db *bbolt.DB) error {
	if err := os.Rename(s.compactPath(), s.path); err != nil {
		_ = guard(db.Close)
		_ = os.Remove(s.compactPath())
		return fileError(err)
	}
	// Until the new name is durable a power failure can bring back the old file: nothing may be acknowledged.
	err := syncDir(filepath.Dir(s.path))
	if err != nil {
		s.refuse(fmt.Sprintf("the compacted file may not last (%v); close the store and open it again", err))
		err = unavailable(fmt.Sprintf("the file was replaced, but its name could not be synced: %v", err), err)
	}
	s.mu.Lock() // readers of the old file end first
	old := s.db
	s.db, s.file = db, file
	s.mu.Unlock()
	if cerr := guard(old.Close); cerr != nil {
		s.options.Logger.Warn("bolt: closing the file that was compacted", "error", cerr)
	}
	return err
}
