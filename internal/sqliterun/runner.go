// Package sqliterun runs transactions that have SQLite's write lock, over any driver of
// database/sql. Packages sqlite and spend/sqliteledger contribute the SQL and read the rows.
//
// A transaction takes a connection, begins, and takes the write lock by a DELETE that matches no
// row: that is BEGIN IMMEDIATE, however the driver begins. No statement in it runs under a context
// that can end, because SQLite may roll back when it interrupts a write, and later statements would
// then commit by themselves. While another connection has the lock, the runner pauses and tries
// again: SQLite has no queue, and the pauses of its busy handler grow to 100 ms, in which others
// take the lock again and again. The transactions of one process wait for each other in the order
// in which they came.
//
// The runner keeps the connection of its last transaction if the pool has no bound. On its own
// connections it sets busy_timeout to 0, and synchronous to the level that the store's options
// promise. Both are as they were when the connection goes back to the pool.
//
// No file of the database is ever opened here, not even to be read: with POSIX locks, closing any
// descriptor of a file ends all locks that the process has on it. See [Runner.lost].
package sqliterun

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/store"
)

// Options are the choices of [New]. They are those of the store that makes the runner.
type Options struct {
	Prefix      string // of the names of the tables
	LockTimeout time.Duration
	Relaxed     bool // leave synchronous as each connection has it
	Clock       *clock.Clock
	Log         *slog.Logger
	Trace       store.Trace
}

// Runner runs transactions for one backend. Any number of goroutines may use it at once.
type Runner struct {
	*database
	backend string
	parent  *Runner // nil for the runner of a store

	mu     sync.RWMutex // held by a read, and written by Close
	closed bool
}

// database is the part that the runners of one store share.
type database struct {
	Options
	db   *sql.DB
	file string    // its absolute path; "" in memory
	lock *sql.Stmt // takes the write lock

	turn    chan struct{} // held by the transaction of this process that may write
	reading chan struct{} // held by each read
	kept    *connection   // guarded by turn
	wal     log           // guarded by turn
	broken  atomic.Bool   // the log of the database has vanished
}

// readers is how many connections of the pool reads use at most. Each open connection costs memory
// and files, and a flood of questions must not open hundreds.
const readers = 4

// New returns a runner over db, whose tables it brings to the version of this program if migrate is
// set.
func New(ctx context.Context, db *sql.DB, backend string, migrate bool, o Options) (*Runner, error) {
	if db == nil {
		return nil, Misconfigured(nil, "the database is nil; open it first")
	}
	d := &database{Options: o, db: db, turn: make(chan struct{}, 1), reading: make(chan struct{}, readers)}
	r := &Runner{database: d, backend: backend}
	err := d.inspect(ctx)
	if err == nil && migrate {
		err = Migrate(ctx, db, o.Prefix, o.LockTimeout)
	}
	if err == nil {
		err = d.current(ctx)
	}
	if err == nil {
		d.lock, err = db.PrepareContext(ctx, d.named(`DELETE FROM main."{{prefix}}buckets" WHERE key = ''`))
	}
	return r, Explain(err)
}

// inspect looks at the database before anything is written to it.
func (d *database) inspect(ctx context.Context) error {
	var encoding, copyOf string
	err := d.db.QueryRowContext(ctx, `SELECT coalesce((SELECT file FROM pragma_database_list WHERE name = 'main'), ''),
(SELECT encoding FROM pragma_encoding), sqlite_source_id() || coalesce((SELECT group_concat(compile_options) FROM pragma_compile_options), '')`).
		Scan(&d.file, &encoding, &copyOf)
	switch {
	case err != nil:
		return err
	case encoding != "UTF-8":
		return Misconfigured(nil, "the encoding of the database is %s, in which keys have another order; brim needs UTF-8", encoding)
	case d.file == "" && d.db.Stats().MaxOpenConnections != 1:
		return Misconfigured(nil, "the database is in memory, and each connection of the pool has its own; "+
			"take package memory, or SetMaxOpenConns(1) and SetConnMaxLifetime(0)")
	case d.file == "":
		return nil
	}
	return oneCopy(d.file, copyOf, d.db)
}

// copies are the copies of SQLite in this process that have opened a file, by its path. POSIX locks
// belong to the process: two copies do not see each other's locks, and each ends those of the
// other. So this is a state of the process, too.
var copies sync.Map

// oneCopy refuses a second copy of SQLite for a file.
func oneCopy(file, copyOf string, db *sql.DB) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	type opened struct {
		copyOf string
		driver string
	}
	driver := strings.TrimPrefix(typeOf(db.Driver()), "*")
	was, _ := copies.LoadOrStore(file, opened{copyOf, driver})
	if by := was.(opened); by.copyOf != copyOf {
		return Misconfigured(nil, "this process has the file open by the driver %s, and now by %s: their copies of SQLite do not see "+
			"each other's locks, and would damage the file; use one driver for a file", by.driver, driver)
	}
	return nil
}

// named puts the prefix of the tables into a statement.
func (d *database) named(text string) string { return named(text, d.Prefix) }

// As returns a runner over the same database that works for another backend.
func (r *Runner) As(backend string) *Runner {
	return &Runner{database: r.database, backend: backend, parent: r}
}

// Shared makes a store that embeds it, under an unexported name, one that [Of] knows. Its method
// belongs to this package, so that the store gets none that its callers see.
type Shared struct{ r *Runner }

func (s Shared) runner() *Runner { return s.r }

// Share returns the Shared of a store that has the runner r.
func (r *Runner) Share() Shared { return Shared{r} }

// Of returns the runner of a store.
func Of(s interface{ runner() *Runner }) *Runner { return s.runner() }

// Wrap names the backend and the operation in err; see [store.Wrap].
func (r *Runner) Wrap(op string, err error) error { return store.Wrap(r.backend, op, err) }

// File returns the absolute path of the database, or "" in memory.
func (r *Runner) File() string { return r.file }

// Flushed returns the function that reports a flush to the trace, or nil where nobody listens.
func (r *Runner) Flushed() func(int, time.Duration, error) {
	tell := r.Trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: r.backend, Requests: requests, Took: took, Err: err})
	}
}

// Ready returns ErrClosed after Close, or the error of a context that is done. Every call asks it
// first.
func (r *Runner) Ready(ctx context.Context) error {
	r.mu.RLock()
	closed := r.closed
	r.mu.RUnlock()
	switch {
	case closed:
		return store.ErrClosed
	case r.parent != nil:
		return r.parent.Ready(ctx)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.broken.Load():
		return Misconfigured(nil, errLost+", and what it has written since then is lost; start this process again")
	}
	return nil
}

// Close refuses further calls, and returns when the reads in flight have ended. The runner of a
// store then gives back its connection, and its ledgers answer ErrClosed.
func (r *Runner) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if again || r.parent != nil {
		return
	}
	r.turn <- struct{}{}
	r.kept.release()
	r.kept = nil
	<-r.turn
	_ = r.lock.Close()
}
