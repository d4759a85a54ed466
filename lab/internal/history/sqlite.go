package history

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
)

// OfSQLite lists all sound subjects over SQLite.
var OfSQLite = [...]Subject{SQLite, Rollback, SQLiteLedger}

// OverSQLite reports whether a subject is kept in SQLite.
func (s Subject) OverSQLite() bool { return s == Unforced || slices.Contains(OfSQLite[:], s) }

// Source returns the name of the driver and the data source of the database at a path, whose
// connections have that setting of synchronous. A harness with such subjects sets it, because it
// chooses the driver.
var Source func(path, synchronous string) (driver, source string)

// openSQLite opens the database in a directory.
func (o *opened) openSQLite(ctx context.Context, dir string, subject Subject, clock func() time.Time) error {
	synchronous, mode := "NORMAL", "WAL" // the store raises synchronous
	switch subject {
	case Rollback:
		mode = "DELETE"
	case Unforced:
		synchronous = "OFF"
	}
	db, err := sql.Open(Source(Path(dir), synchronous))
	if err != nil {
		return err
	}
	o.end = append(o.end, db.Close)
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = "+mode); err != nil {
		return err
	}
	s, err := sqlite.New(ctx, db, &sqlite.Options{Clock: clock, PruneEvery: -1, Relaxed: subject == Unforced})
	if err != nil {
		return err
	}
	o.s, o.end = database{s, db}, append(o.end, s.Close)
	if subject != SQLiteLedger {
		return nil
	}
	l, err := sqliteledger.New(ctx, s, &sqliteledger.Options{Clock: clock})
	if err != nil {
		return err
	}
	o.end = append(o.end, l.Close)
	o.budgets, err = spend.New(ctx, l, budget, nil)
	return err
}

// database is a store in a database of SQLite.
type database struct {
	*sqlite.Store
	db *sql.DB
}

// Compact writes the whole database anew, and empties its log. It tells no sizes. With a rollback
// journal and less than EXTRA, a power cut after a VACUUM can damage a database: the journal comes
// back and the truncated end of the file does not.
func (d database) Compact(ctx context.Context) (before, after int64, err error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range []string{
		"PRAGMA synchronous = EXTRA", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA synchronous = NORMAL",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, nil
}

// Verify has SQLite check its pages.
func (d database) Verify(ctx context.Context) error {
	var sound string
	err := d.db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&sound)
	if err == nil && sound != "ok" {
		err = errors.New(sound)
	}
	return err
}
