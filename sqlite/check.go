package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/brimgo/brim/internal/fsinfo"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/store"
)

// Check looks for all that breaks or weakens the promises of the store: the settings of a
// connection, the version of SQLite, the file system and its free space, the size of the log, and
// damage in the table of buckets. It tries, too: it makes a decision of each kind on buckets of its
// own, whose keys begin with "brim.check/", and deletes them again. A ledger in the database shares
// its connections, so Check judges it, too.
//
// It looks at one connection of the pool. The settings of other connections and processes may
// differ.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var f findings
	err := s.run.Read(ctx, func(ctx context.Context) (err error) {
		f, err = s.inspect(ctx)
		return err
	})
	if err == nil {
		err = f.try(ctx, s)
	}
	return f.Findings, store.Wrap(backend, "check", err)
}

// findings are the results of a check.
type findings struct{ trial.Findings }

func (s *Store) inspect(ctx context.Context) (f findings, err error) {
	var version, mode, locking, sound string
	var synchronous, every int
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return f, err
	}
	defer func() { _ = conn.Close() }()
	for _, q := range []struct {
		sql string
		to  any
	}{
		{`SELECT sqlite_version()`, &version},
		{`PRAGMA journal_mode`, &mode},
		{`PRAGMA locking_mode`, &locking},
		{`PRAGMA synchronous`, &synchronous},
		{`PRAGMA wal_autocheckpoint`, &every},
		{`PRAGMA quick_check("` + strings.ReplaceAll(s.options.Prefix, `"`, `""`) + `buckets")`, &sound},
	} {
		if err := conn.QueryRowContext(ctx, q.sql).Scan(q.to); err != nil {
			return f, err
		}
	}
	if sound != "ok" {
		f.Add(store.Broken, "content", sound, "restore the last backup of the database")
	}
	f.settings(mode, locking, synchronous, s.options.Relaxed)
	if mode == "wal" && resets(version) {
		f.Add(store.Warning, "SQLite "+version, "two connections that write and make checkpoints at the same moment can damage the database, "+
			"once in a very long time (the WAL-reset bug)", "take a driver with SQLite 3.51.3 or later")
	}
	if s.run.File() == "" {
		f.Add(store.Broken, "database", "it is in memory: the end of the process loses it", "give the database a file, or take package memory")
		return f, nil
	}
	return f, f.disk(s.run.File(), every)
}

// settings judges a connection. All decisions of a relaxed store commit with its setting of
// synchronous, and else those that the application commits.
func (f *findings) settings(mode, locking string, synchronous int, relaxed bool) {
	switch mode {
	case "wal":
	case "off", "memory":
		f.Add(store.Broken, "journal_mode", "it is "+mode+": a killed process can damage the database", "PRAGMA journal_mode = WAL")
	default:
		f.Add(store.Warning, "journal_mode", "it is "+mode+": readers make writers wait, and each commit takes several syncs", "PRAGMA journal_mode = WAL")
	}
	if locking != "normal" {
		f.Add(store.Warning, "locking_mode", "it is "+locking+": no other process can use the database", "PRAGMA locking_mode = NORMAL")
	}
	whose := "decisions of Store.With, which the application commits,"
	if relaxed {
		whose = "acknowledged decisions"
	}
	const remedy = "PRAGMA synchronous = FULL on each connection, by a parameter of the data source; see docs/sqlite.md"
	switch synchronous {
	case 0:
		f.Add(store.Broken, "synchronous", "it is OFF: a power failure loses "+whose+" and can damage the database", remedy)
	case 1:
		f.Add(store.Warning, "synchronous", "it is NORMAL: a kill loses nothing, but a power failure loses "+whose+
			" since the last checkpoint", remedy)
	}
}

// Limits of what a database may need.
const (
	growth  = 64 << 20 // bytes of a log that checkpoints keep small: SQLite makes one after each 1,000 pages
	minFree = 16 << 20 // bytes, below which even a small database is about to fail
	noSpace = 1 << 20
)

// disk looks at the file by its name alone; see the comment of the package.
func (f *findings) disk(file string, every int) error {
	on, size, err := fsinfo.Of(file)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		f.Add(store.Unchecked, "file system", "this system does not tell the kind of a file system", "see that the file is on a local disk")
	case err != nil:
		return sqliterun.Misconfigured(err, "%v", err)
	case on.Volatile:
		f.Add(store.Broken, "file system", "the file is on "+on.Name+": a restart of the machine loses it", "move the file to a disk")
	case on.Network:
		f.Add(store.Broken, "file system", "the file is on "+on.Name+": processes on several machines do not see each other's locks and log, "+
			"and would damage the database", "move the file to a local disk, or take package postgres")
	}
	if err == nil && on.Free < noSpace {
		f.Add(store.Broken, "free space", fmt.Sprintf("%d KiB are free: a fill cannot be written", on.Free>>10), "make room")
	} else if err == nil && on.Free < max(size/8, minFree) {
		f.Add(store.Warning, "free space", fmt.Sprintf("%d MiB are free", on.Free>>20), "make room")
	}
	if is, err := os.Stat(file + "-wal"); err == nil && is.Size() > growth {
		why := "a transaction that only reads has been open for long"
		if every <= 0 {
			why = "wal_autocheckpoint is 0"
		}
		f.Add(store.Warning, "log", fmt.Sprintf("%s-wal has %d MiB; the reason may be that %s", filepath.Base(file), is.Size()>>20, why),
			"end that transaction; then PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return nil
}

// try makes a decision of each kind.
func (f *findings) try(ctx context.Context, s *Store) error {
	failed, err := trial.Try(ctx, s)
	if failed != nil {
		f.Add(store.Broken, "decision", failed.Error(), "look for a transaction that holds the write lock, and at the disk")
	}
	return err
}

// resets reports whether a version of SQLite has the WAL-reset bug, which 3.44.6, 3.50.7 and 3.51.3
// mend.
func resets(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 || major != 3 {
		return false
	}
	mended, known := map[int]int{44: 6, 50: 7, 51: 3}[minor]
	return known && patch < mended || !known && minor < 51
}
