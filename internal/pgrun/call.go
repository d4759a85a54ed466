package pgrun

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
)

// Queryer is a connection or a transaction.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Look calls f with a connection, on which f reads and changes nothing. It rolls back a
// transaction that f leaves open. An error never says ErrUnknownOutcome.
//
// Of Look and of the methods below, f sends its statements under the context that it gets: that
// context ends when the server has sent nothing for the runner's timeout.
func (r *Runner) Look(ctx context.Context, op string, f func(context.Context, *pgxpool.Conn) error) error {
	err := r.Ready(ctx)
	if err == nil {
		err = r.looked(ctx, r.onConn(ctx, f))
	}
	return r.Wrap(op, err)
}

// Change calls f with a connection, on which f sends one statement by [Runner.Query]. It calls
// f again where nothing was applied and a retry may help.
func (r *Runner) Change(ctx context.Context, op string, f func(context.Context, *pgxpool.Conn) error) error {
	err := r.Ready(ctx)
	if err == nil {
		for n := 0; n == 0 || r.again(ctx, n-1, err); n++ {
			err = r.onConn(ctx, f)
		}
		err = r.changed(ctx, err)
	}
	return r.Wrap(op, err)
}

// LockTimeout returns the lock_timeout of a statement on a connection under the context of its one
// caller, which may wait for as long as a flush may last; see the fragment lock_timeout().
func (r *Runner) LockTimeout(conn *pgxpool.Conn) *string {
	return lockTimeoutOf(r.Timeout*3/4, ownWait(conn.Conn())) // the server answers before the call is cut off
}

// IdleTimeout returns the idle_in_transaction_session_timeout of the transactions of brim as the
// argument of a statement; see the fragment idle_timeout().
func (r *Runner) IdleTimeout() *string {
	idle := milliseconds(r.Timeout)
	return &idle
}

// onConn calls f with a connection of the pool.
func (r *Runner) onConn(caller context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	conn, err := r.acquire(caller)
	if err != nil {
		return unsent{err}
	}
	ctx, release := bounded(caller, r.Timeout)
	defer func() {
		late := ctx.Err() != nil && caller.Err() == nil
		release()
		r.giveBack(conn, late)
	}()
	if err := vetted(ctx, conn); err != nil {
		return err
	}
	_ = r.measure(ctx, conn)
	if conn.Conn().IsClosed() {
		return unsent{cmp.Or(ctx.Err(), errGone)}
	}
	ctx.flight.begin(conn)
	return ctx.flight.end(ctx, conn, f(ctx, conn))
}

// Transact runs fn in one transaction at READ COMMITTED and commits it when fn returns nil.
// After a deadlock, and after any other error that leaves nothing applied and may not come
// again, it runs fn again. An error of fn's own is returned as it is.
//
// The server ends a transaction in which fn has sent nothing for the runner's timeout. That leaves
// nothing applied.
func (r *Runner) Transact(ctx context.Context, op string, fn func(pgx.Tx) error) error {
	err := r.Ready(ctx)
	if err != nil {
		return r.Wrap(op, err)
	}
	for n := 0; n == 0 || r.again(ctx, n-1, err); n++ {
		err = r.transact(ctx, fn)
	}
	var own ownError
	if errors.As(err, &own) && judge(err) != retry && judge(err) != serialized {
		return own.error
	}
	return r.Wrap(op, r.changed(ctx, err))
}

// ownError is an error that the caller's function returned.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// ownTx is a transaction that Transact has begun.
type ownTx struct{ pgx.Tx }

func (r *Runner) transact(ctx context.Context, fn func(pgx.Tx) error) error {
	return r.onConn(ctx, func(bound context.Context, conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(bound, pgx.TxOptions{BeginQuery: r.beginBounded})
		if err != nil {
			return unsent{err}
		}
		// After a commit this does nothing. The context may be done by then, and the transaction
		// must end all the same.
		defer func() {
			ctx, release := bounded(context.WithoutCancel(ctx), r.Timeout)
			defer release()
			_ = tx.Rollback(ctx)
		}()
		unanswerable(bound)
		if err := fn(ownTx{tx}); err != nil {
			return ownError{err}
		}
		if tx.Conn().IsClosed() {
			return unsent{errGone} // no COMMIT can go out
		}
		answered(bound)
		return tx.Commit(bound)
	})
}

// begin does not say READ WRITE. A session that was made read-only is so for every kind of
// call, and a standby refuses the words READ WRITE with a code that does not tell it from other
// errors.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// beginBounded begins a transaction whose idle_in_transaction_session_timeout is the given time. It
// is two statements for the simple protocol, which takes one round trip and no parameters.
func beginBounded(timeout time.Duration) string {
	idle := "SELECT {{idle_timeout(" + pgname.Literal(milliseconds(timeout)) + ")}}"
	return begin + "; " + pgname.Names{}.Statement("begin", idle, Fragments())
}

// QueueBegin begins a transaction at READ COMMITTED.
func QueueBegin(b *pgx.Batch) { b.Queue(begin) }

// QueueCommit ends a transaction. A COMMIT that the server turned into a ROLLBACK fails the
// batch.
func QueueCommit(b *pgx.Batch) {
	b.Queue("COMMIT").Exec(func(ct pgconn.CommandTag) error {
		if ct.String() == "ROLLBACK" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
}

// SendTogether sends statements as one transaction on a connection, in one round trip. Without a
// transaction block they are one transaction, because nothing between them ends it. On a connection
// whose session has another default isolation, they go out in a block at READ COMMITTED.
func (r *Runner) SendTogether(ctx context.Context, q Queryer, statements *pgx.Batch) error {
	b := statements
	if r.explicit.Load() {
		b = &pgx.Batch{}
		QueueBegin(b)
		b.QueuedQueries = append(b.QueuedQueries, statements.QueuedQueries...)
		QueueCommit(b)
	}
	return q.SendBatch(ctx, b).Close()
}

// Queue queues a statement, and calls each for each of its rows.
func Queue(ctx context.Context, b *pgx.Batch, sql string, args []any, each func(pgx.Rows) error) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		_, err := readAll(ctx, rows, each)
		return err
	})
}

// Query sends one statement, calls each for each of its rows, and reports how many rows it
// returned or changed. On a connection whose session has another default isolation the
// statement runs in a transaction of its own at READ COMMITTED. When Query on a connection
// returns without an error, the statement is committed.
func (r *Runner) Query(
	ctx context.Context, q Queryer, sql string, args []any, each func(pgx.Rows) error,
) (n int64, err error) {
	if ofApplication(q) || !r.explicit.Load() {
		return Read(ctx, q, sql, args, each)
	}
	b := &pgx.Batch{}
	QueueBegin(b)
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		n, err = readAll(ctx, rows, each)
		return err
	})
	QueueCommit(b)
	return n, q.SendBatch(ctx, b).Close()
}

// Read sends one statement of a transaction, calls each for each of its rows, and reports how many
// rows it returned or changed.
func Read(ctx context.Context, q Queryer, sql string, args []any, each func(pgx.Rows) error) (int64, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return readAll(ctx, rows, each)
}

// readAll reads the rows to their end and closes them.
func readAll(ctx context.Context, rows pgx.Rows, each func(pgx.Rows) error) (int64, error) {
	for n := 1; rows.Next(); n++ {
		if n%rowsPerAnswer == 0 {
			answered(ctx)
		}
		if err := each(rows); err != nil {
			rows.Close()
			return 0, err
		}
	}
	rows.Close()
	answered(ctx)
	return rows.CommandTag().RowsAffected(), rows.Err() // a commit that fails shows only after the last row
}
