package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brimgo/brim/internal/durable"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// Backup writes a copy of the whole database to a new file at path, by VACUUM INTO: the rows of the
// application, the buckets and the ledger, as of one moment, with all decisions that were
// acknowledged before the call. The copy is compact, needs no log, and is durable when Backup
// returns. Callers go on meanwhile, but the log of the database grows until the copy is made.
//
// If there is a file at path, the error is [fs.ErrExist]. After another error there is none, but if
// the last sync of the directory fails: the copy is there then, and may not outlive a loss of
// power.
//
// To restore a copy, end all processes that use the database, move the database away with its -wal
// and its -shm, and put the copy in its place.
func (s *Store) Backup(ctx context.Context, path string) error {
	return store.Wrap(backend, "backup", s.backup(ctx, path))
}

func (s *Store) backup(ctx context.Context, path string) (err error) {
	if err := s.run.Ready(ctx); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return sqliterun.Misconfigured(fs.ErrExist, "there is a file of that name; give a new one")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".brim-backup-") // nobody else can write into it
	if err != nil {
		return sqliterun.Misconfigured(err, "%v", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "copy")
	if _, err := s.db.ExecContext(ctx, `VACUUM main INTO ?`, made); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return sqliterun.Explain(err)
	}
	if err := syncFile(made); err != nil {
		return sqliterun.Unavailable(err, "%v", err)
	}
	if err := os.Link(made, path); err != nil { // unlike Rename, it never replaces a file
		if errors.Is(err, fs.ErrExist) {
			return sqliterun.Misconfigured(err, "there is a file of that name; give a new one")
		}
		if err := os.Rename(made, path); err != nil { // the file system has no links
			return sqliterun.Unavailable(err, "%v", err)
		}
	}
	return durable.Dir(filepath.Dir(path))
}

// syncFile makes a copy durable, which SQLite does not. No connection of this process has it open.
func syncFile(made string) error {
	f, err := os.OpenFile(made, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
