package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// lane is what flushes of one lane use: never two at once.
type lane struct {
	s    *Store
	conn *pgxpool.Conn
	groups
	*watchdog
	careful int // how many statements for TryFillups are still to look before they lock; see cautious
}

func (s *Store) newLane() *lane {
	return &lane{s: s, watchdog: newWatchdog(s.timeout), careful: cautious}
}

// queryer is a connection, a pool or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// acquire takes a connection for the next flush. Callers can still take their requests back while it waits.
func (l *lane) acquire() error {
	l.start()
	err := l.connect()
	if err != nil {
		l.stop()
	}
	return err
}

// connect takes a connection where the lane has none, or one that has broken.
func (l *lane) connect() error {
	if l.conn != nil && !l.conn.Conn().IsClosed() {
		return nil
	}
	l.disconnect()
	ctx := l.acquiring()
	conn, err := l.s.pool.Acquire(ctx)
	switch {
	case err == nil:
		l.conn = conn
		l.watch(conn.Conn().PgConn().Conn())
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no connection within %v; see Options.StatementTimeout and the pool's size", store.ErrUnavailable, l.s.timeout)
	}
	return l.s.explain(unsent{err})
}

// release gives the connection back when the flush is done.
func (l *lane) release() {
	l.disconnect()
	l.stop()
}

func (l *lane) disconnect() {
	if l.conn != nil {
		l.unwatch()
		l.conn.Release()
		l.conn = nil
	}
}

// attempt runs f, which sends one statement or transaction on the lane's connection, again where nothing was applied and a
// retry may help.
func (l *lane) attempt(ctx context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	for n := 0; ; n++ {
		if err := l.connect(); err != nil {
			return err
		}
		err := f(ctx, l.conn)
		if err == nil {
			return nil
		}
		if l.conn.Conn().PgConn().TxStatus() != 'I' && !l.conn.Conn().IsClosed() {
			_, _ = l.conn.Exec(ctx, "ROLLBACK") // a connection that stays in a transaction is not given back by the pool
		}
		switch v := judge(err); {
		case v == readOnly:
			_ = l.conn.Conn().Close(ctx) // it will not become writable; the next may be to another server
			return l.s.explain(err)
		case v == serialized && !l.s.explicit.Swap(true) && n < retries:
			continue
		case v == serialized && n < retries, v == retry && n < retries:
			l.s.retrying(n+1, l.s.explain(err))
		default:
			return l.s.explain(err)
		}
		if err := backoff(ctx, n); err != nil {
			return l.s.explain(err)
		}
	}
}

// It does not say READ WRITE: a session that was made read-only is so for every kind of call, and a standby would refuse the
// words with a code that says nothing of standbys.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// query sends one statement, in a transaction of its own that says READ COMMITTED where the session's default is another, and
// hands its rows to each. When it returns without an error the statement is committed.
func (s *Store) query(ctx context.Context, q queryer, sql string, args []any, each func(pgx.Rows) error) error {
	read := func(rows pgx.Rows) error {
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	if _, caller := q.(pgx.Tx); caller || !s.explicit.Load() {
		rows, err := q.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		err = read(rows)
		rows.Close()
		if err == nil {
			err = rows.Err() // a commit that fails shows only after the last row
		}
		return err
	}
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(sql, args...).Query(read)
	queueCommit(b)
	return q.SendBatch(ctx, b).Close()
}

// queueCommit ends a transaction, and tells a commit that became a rollback.
func queueCommit(b *pgx.Batch) {
	b.Queue("COMMIT").Exec(func(ct pgconn.CommandTag) error {
		if ct.String() == "ROLLBACK" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
}
