package place

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// drivers are the names under which drivers of SQLite register: modernc.org/sqlite has the first,
// github.com/mattn/go-sqlite3 and github.com/ncruces/go-sqlite3 have the second.
var drivers = []string{"sqlite", "sqlite3"}

// maxIdle is the number of idle connections that the pool keeps. A store uses one to write and a
// few to read, and opening one takes longer than a decision.
const maxIdle = 8

// busyTimeout is how long a statement of the application waits for the lock of another connection.
// modernc's driver would not wait at all.
const busyTimeout = 5 * time.Second

// Database opens the database of a place of kind [SQLite] with a driver that the program has
// registered. It creates the file if there is none, and sets the WAL mode in a database that is
// empty, and so new: the mode of an application's database is its own affair. maxConns is the
// largest number of connections; 0 means no bound. The caller closes the database.
func (p Place) Database(ctx context.Context, maxConns int) (db *sql.DB, empty bool, err error) {
	if p.kind != SQLite {
		return nil, false, fmt.Errorf("a database needs a file of SQLite, and this is: %v", p.kind)
	}
	known := sql.Drivers()
	i := slices.IndexFunc(drivers, func(name string) bool { return slices.Contains(known, name) })
	if i < 0 {
		return nil, false, fmt.Errorf("%w: this program has no driver of SQLite; import one in it, such as _ \"modernc.org/sqlite\"", store.ErrMisconfigured)
	}
	path, err := filepath.Abs(p.Path())
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") { // a drive
		path = "/" + path
	}
	// Each driver ignores the parameters of the others.
	wait := fmt.Sprintf("?_pragma=busy_timeout(%d)&_busy_timeout=%[1]d", busyTimeout.Milliseconds())
	db, err = sql.Open(drivers[i], "file:"+(&url.URL{Path: path}).EscapedPath()+wait)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxIdle)
	if empty, err = begin(ctx, db); err == nil {
		return db, empty, nil
	}
	if explained := sqliterun.Explain(err); errors.Is(explained, store.ErrUnavailable) {
		err = explained
	} else {
		err = fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	return nil, false, errors.Join(err, db.Close())
}

// begin sets the WAL mode in an empty database. Several processes may begin at once. Of two that
// read and then want to write, SQLite refuses one at once, whatever its busy timeout.
func begin(ctx context.Context, db *sql.DB) (empty bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	until := time.Now().Add(busyTimeout)
	err = sqliterun.Retry(ctx, func() error {
		var pages int
		if err := conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil || pages > 0 {
			empty = false
			return err
		}
		empty = true
		_, err := conn.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		return err
	}, func(int, error) bool { return time.Now().Before(until) })
	return empty, err
}
