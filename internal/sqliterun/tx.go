package sqliterun

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/brimgo/brim/store"
)

// connection is a connection of the pool with the settings of the runner.
type connection struct {
	*sql.Conn
	undo    []string // give the connection its own settings back
	journal bool     // a rollback journal, and no write-ahead log
}

// release gives the connection back to the pool.
func (c *connection) release() {
	if c == nil {
		return
	}
	for _, statement := range c.undo {
		_, _ = c.ExecContext(context.Background(), statement)
	}
	_ = c.Close()
}

// Tx is a transaction that has the write lock.
type Tx struct {
	*sql.Tx
	r      *Runner
	conn   *connection
	failed bool // the commit
	cancel context.CancelFunc
}

// Begin begins a transaction with the write lock. It waits for LockTimeout at most: for the other
// transactions of this process, a connection of the pool, and the lock.
//
// The context of BeginTx lasts as long as the transaction, and its end would roll back. So only a
// timer ends it, which Begin stops.
func (r *Runner) Begin() (*Tx, error) {
	if err := r.Ready(context.Background()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(r.LockTimeout, cancel)
	defer timer.Stop()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, r.late(errors.New("a transaction of this process has the lock"))
	}
	t := &Tx{r: r, cancel: cancel, conn: r.kept}
	r.kept = nil
	err := t.begin(ctx)
	if err == nil && !timer.Stop() {
		err = ctx.Err()
	}
	if err != nil {
		late := ctx.Err() != nil
		t.End()
		if late && !errors.Is(err, store.ErrCorrupt) {
			return nil, r.late(err)
		}
		return nil, Explain(err)
	}
	return t, nil
}

// late returns the error of a wait that has lasted for LockTimeout.
func (r *Runner) late(err error) error {
	return Unavailable(err, "no connection of the pool, or not the write lock of the database, within %v; nothing was applied. "+
		"Keep transactions that write short, and call With while you hold the pool's only connection (%v)", r.LockTimeout, err)
}

func (t *Tx) begin(ctx context.Context) (err error) {
	if t.conn == nil {
		if t.conn, err = t.r.connect(ctx); err != nil {
			return err
		}
	}
	return t.r.retry(ctx, func() error {
		tx, err := t.conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err = tx.StmtContext(ctx, t.r.lock).ExecContext(ctx); err != nil {
			_ = tx.Rollback()
			return err
		}
		t.Tx = tx
		return nil
	})
}

func (r *Runner) retry(ctx context.Context, fn func() error) error {
	return Retry(ctx, fn, func(attempt int, err error) bool {
		if r.Trace.Retry != nil {
			r.Trace.Retry(store.Retry{Backend: r.backend, Attempt: attempt, Err: err})
		}
		return true
	})
}

// Retry repeats fn while another connection has the lock that it needs, until ctx ends or again,
// which gets the error of each attempt, is false. The pauses are short and random, so that no
// process gets the lock more often than another.
func Retry(ctx context.Context, fn func() error, again func(attempt int, err error) bool) error {
	for attempt, pause := 1, 200*time.Microsecond; ; attempt, pause = attempt+1, min(2*pause, 4*time.Millisecond) {
		err := fn()
		if !busy(err) || ResultCode(err) == codeBusySnapshot || ctx.Err() != nil || !again(attempt, err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// connect takes a connection of the pool, and sets it. The runner waits by itself: mattn/go-sqlite3
// waits for its busy timeout whatever the context.
func (r *Runner) connect(ctx context.Context) (*connection, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn}
	var timeout, synchronous, needed int
	var mode string
	err = conn.QueryRowContext(ctx, `SELECT (SELECT timeout FROM pragma_busy_timeout), (SELECT synchronous FROM pragma_synchronous),
(SELECT journal_mode FROM pragma_journal_mode)`).Scan(&timeout, &synchronous, &mode)
	if needed, c.journal = 2, mode != "wal"; c.journal {
		needed = 3 // EXTRA also syncs the directory after the removal of the journal, which is the commit
	}
	if err == nil && timeout != 0 {
		err = c.set(ctx, "busy_timeout", timeout, 0)
	}
	if err == nil && synchronous < needed && !r.Relaxed {
		err = c.set(ctx, "synchronous", synchronous, needed)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// set changes a setting of the connection until it goes back to the pool.
func (c *connection) set(ctx context.Context, pragma string, is, to int) error {
	_, err := c.ExecContext(ctx, fmt.Sprintf("PRAGMA %s = %d", pragma, to))
	if err == nil {
		c.undo = append(c.undo, fmt.Sprintf("PRAGMA %s = %d", pragma, is))
	}
	return err
}

// End rolls back a transaction that has not ended, and lets the next one begin.
func (t *Tx) End() {
	if t.Tx != nil {
		_ = t.Rollback() // ErrTxDone after a commit
	}
	if t.Tx != nil && !t.failed && t.r.db.Stats().MaxOpenConnections == 0 {
		t.r.kept = t.conn
	} else {
		t.conn.release()
	}
	t.cancel()
	<-t.r.turn
}

// Commit commits, and sees that the log is still there. An error is [store.ErrUnknownOutcome]
// unless nothing was applied.
func (t *Tx) Commit() error {
	if err := t.commit(); err != nil {
		// Some drivers leave the transaction open. No other may find it on this connection.
		_, _ = t.conn.ExecContext(context.Background(), "ROLLBACK")
		t.failed = true
		return explainCommit(err)
	}
	if t.r.lost(t.conn) {
		t.r.broken.Store(true)
		return newFault(store.ErrUnknownOutcome, nil, errLost+"; start this process again")
	}
	return nil
}

// commit waits for readers, as a commit with a rollback journal must. It does so by a statement,
// because database/sql ends a transaction whose Commit fails.
func (t *Tx) commit() error {
	if !t.conn.journal {
		return t.Tx.Commit()
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.r.LockTimeout)
	defer cancel()
	return t.r.retry(ctx, func() error {
		_, err := t.ExecContext(context.Background(), "COMMIT")
		return err
	})
}

const errLost = "another process has removed the log of the database while it was in use, because this process has opened and " +
	"closed the file by other means than SQLite, which ends its locks"

// log is the log of a database in WAL mode while one connection is open.
type log struct {
	conn any // of the driver
	file os.FileInfo
}

// lost reports whether the log has vanished that an earlier commit of the connection has written
// to. While a connection is open, no process removes the log; so another process takes itself for
// the last, because the locks of this one have ended. Its commits are then in a file without a
// name.
func (r *Runner) lost(c *connection) (lost bool) {
	if r.file == "" {
		return false
	}
	is, err := os.Stat(r.file + "-wal")
	_ = c.Raw(func(conn any) error {
		if r.wal.conn != conn {
			r.wal = log{conn: conn}
		}
		return nil
	})
	switch {
	case r.wal.file == nil:
		if err == nil {
			r.wal.file = is
		}
		return false
	case err == nil && os.SameFile(is, r.wal.file):
		return false
	}
	var mode string // the application may have left the WAL mode
	err = c.QueryRowContext(context.Background(), `PRAGMA journal_mode`).Scan(&mode)
	r.wal = log{}
	return err != nil || mode == "wal"
}

// Read runs fn, which reads, under the context of its caller. It waits for LockTimeout at most.
func (r *Runner) Read(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := r.Ready(ctx); err != nil {
		return err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return store.ErrClosed
	}
	bounded, cancel := context.WithTimeout(ctx, r.LockTimeout)
	defer cancel()
	var err error
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
		err = r.retry(bounded, func() error { return fn(bounded) })
	case <-bounded.Done():
		err = bounded.Err()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil && !classed(err), errors.Is(err, context.DeadlineExceeded):
		return r.late(err)
	}
	return Explain(err)
}

// Within runs fn on tx, a transaction of the application, after it has taken the write lock if fn
// writes. fn is not cancelled: see the comment of the package.
func (r *Runner) Within(ctx context.Context, tx *sql.Tx, writes bool, fn func(ctx context.Context) error) error {
	if err := r.Ready(ctx); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if writes {
		if _, err := tx.StmtContext(ctx, r.lock).ExecContext(ctx); err != nil {
			return Explain(err)
		}
	}
	return Explain(fn(ctx))
}

// Snapshot runs fn in a transaction that reads one state of the database.
func (r *Runner) Snapshot(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(tx)
}
