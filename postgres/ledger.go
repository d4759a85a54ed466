package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Transact runs f with a connection of the pool, on which f sends one transaction of its own, at READ COMMITTED, from its
// beginning to its commit; and runs it again where nothing was applied and a retry may help, as the store does with its own. It
// is for packages that keep tables of their own beside the buckets, as spend/pgledger does.
//
// Errors are the store's: [store.ErrUnknownOutcome] if the transaction may have been committed, [store.ErrUnavailable] if not.
// Refused says that the server has answered no to what was sent, so that a part of it may be accepted alone.
func (s *Store) Transact(ctx context.Context, f func(ctx context.Context, conn *pgxpool.Conn) error) (refusal bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	l := s.newLane()
	if err := l.acquire(); err != nil {
		return false, err
	}
	defer l.release()
	err = l.attempt(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		err := f(ctx, conn)
		refusal = err != nil && judge(err) == refused
		return err
	})
	return refusal, err
}

// Ask runs f with a connection of the pool, on which f reads and changes nothing, under the caller's context. A transaction that
// f leaves open is rolled back. It is for packages with tables of their own, like Transact.
func (s *Store) Ask(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.looked(ctx, unsent{err})
	}
	defer conn.Release()
	err = f(conn)
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		if _, rerr := conn.Exec(ctx, "ROLLBACK"); err == nil {
			err = rerr
		}
	}
	return s.looked(ctx, err)
}

// Explain makes of a driver's error, of what was sent in a caller's own transaction, the error that callers see.
func (s *Store) Explain(ctx context.Context, err error) error { return s.looked(ctx, err) }
