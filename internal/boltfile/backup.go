package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
)

// Snapshot is the content of a file as of one commit. Until it is closed, the file cannot grow.
type Snapshot struct {
	f   *File
	tx  *bbolt.Tx
	end func()
}

// Snapshot begins a snapshot of the newest commit. A joined File answers [errors.ErrUnsupported].
func (f *File) Snapshot() (*Snapshot, error) {
	if !f.owned {
		return nil, fmt.Errorf("%w for a store made by New: the database is the application's; copy it with Tx.WriteTo of bbolt",
			errors.ErrUnsupported)
	}
	tx, end, err := f.Read()
	if err != nil {
		return nil, err
	}
	return &Snapshot{f, tx, sync.OnceFunc(end)}, nil
}

// Close ends the snapshot. Closing twice is allowed.
func (s *Snapshot) Close() { s.end() }

// Backup writes a file with the content of the snapshot to w, and returns the number of bytes that
// w took. finish may change the content of the copy before.
//
// The copy is made and checked in a temporary file beside the file, and the snapshot is closed
// as soon as it was read: neither the check nor a slow w holds up anybody.
func (s *Snapshot) Backup(ctx context.Context, w io.Writer, finish func(tx *bbolt.Tx) error) (n int64, err error) {
	defer s.Close()
	path := s.f.path
	file, temp, err := newTemp(s.f.fs, path, 0o600)
	if err != nil {
		return 0, FileError(hideTemp(err, temp, path))
	}
	var db *bbolt.DB
	defer func() {
		if !lockable { // such a system may refuse to remove an open file
			_ = closeBoth(file, db)
			_ = s.f.fs.Remove(temp)
			return
		}
		_ = s.f.fs.Remove(temp) // an error leaves it to the next Open
		_ = closeBoth(file, db)
	}()
	if db, err = openBolt(s.f.fs, file, 0, 0); err == nil {
		err = s.copyTo(ctx, file, db, finish)
	}
	if err != nil {
		return 0, hideTemp(err, temp, path)
	}
	return stream(ctx, w, file)
}

// closeBoth closes a file, of which db is the database unless it is nil.
func closeBoth(file vfs.File, db *bbolt.DB) error {
	if db == nil {
		return file.Close()
	}
	return guard(db.Close)
}

// copyTo makes the copy, closes the snapshot and checks the copy. Nothing is synced, because the
// copy is of no use after a crash.
func (s *Snapshot) copyTo(ctx context.Context, file vfs.File, db *bbolt.DB, finish func(*bbolt.Tx) error) error {
	err := copyBuckets(ctx, s.tx, db)
	s.Close()
	if err != nil {
		return err
	}
	err = guard(func() error {
		if err := db.Update(finish); err != nil {
			return err
		}
		// Once more without a change, so that both meta pages describe the content; see File.Close.
		return db.Update(func(*bbolt.Tx) error { return nil })
	})
	if err != nil {
		return FileError(err)
	}
	var c Verifier
	err = verifyAll(ctx, file, &c)
	if err == nil {
		s.f.logDamaged(c.Damaged())
	}
	return err
}

// stream writes the pages of a database to w, and not the space behind them.
func stream(ctx context.Context, w io.Writer, file vfs.File) (int64, error) {
	m, err := metaOf(file)
	if err != nil {
		return 0, err
	}
	size := int64(m.high) * int64(m.pageSize)
	n, err := io.Copy(w, &contextReader{ctx, io.NewSectionReader(file, 0, size)})
	if err == nil && n < size {
		err = readError(io.ErrUnexpectedEOF)
	}
	return n, err
}

// contextReader is a reader that fails when ctx has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// WriteNew makes a file at path of the output of write, which must be a whole database. It checks
// the file and makes it durable before it gives the file its name, so that there is a whole file or
// none. It returns the number of intact values of each table by its name. If there is a file at
// path, the error is [ErrExists].
func WriteNew(ctx context.Context, path string, write func(file vfs.File) error) (values map[string]uint64, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, FileError(err)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, Misconfigured(ErrExists.Error(), ErrExists)
	}
	fsys := vfs.Default
	file, temp, err := newTemp(fsys, path, 0o600)
	if err != nil {
		return nil, FileError(hideTemp(err, temp, path))
	}
	defer func() {
		// It was synced. It is closed first, since Windows removes no file that is open. An Open
		// that comes between the two finds it unlocked, and removes the temporary name as well.
		_ = file.Close()
		if rerr := fsys.Remove(temp); rerr != nil && err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = FileError(hideTemp(rerr, temp, path))
		}
	}()
	if err := write(file); err != nil {
		return nil, FileError(hideTemp(err, temp, path))
	}
	if err := file.Sync(); err != nil {
		return nil, FileError(hideTemp(err, temp, path))
	}
	var c Verifier
	if err := verifyAll(ctx, file, &c); err != nil {
		return nil, err
	}
	if err := linkNew(fsys, temp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = Misconfigured(ErrExists.Error(), ErrExists)
		}
		return nil, FileError(hideTemp(err, temp, path))
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return nil, FileError(err)
	}
	return c.Values(), nil
}
