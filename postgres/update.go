package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/store"
)

// Update runs fn in one transaction of its own, at READ COMMITTED: all that fn does on the store that it is given commits
// together when fn returns nil, and nothing of it does if fn returns an error, which is then Update's. See [Store.With] for
// what holds inside.
//
// Where the server answers with a deadlock, because fn fills buckets in another order than somebody else, Update runs fn
// again, up to three times. If the error is [store.ErrUnknownOutcome], the transaction may have committed; after any other it
// has not.
func (s *Store) Update(ctx context.Context, fn func(store.Store) error) error {
	if err := s.ready(ctx); err != nil {
		return store.Wrap(backend, "update", err)
	}
	for n := 0; ; n++ {
		err := s.update(ctx, fn)
		var own ownError
		switch v := judge(err); {
		case err == nil:
			return nil
		case errors.As(err, &own) && judge(own.error) != retry:
			return own.error
		case ctx.Err() != nil, v != retry, n == retries:
			return store.Wrap(backend, "update", s.changed(ctx, err))
		}
		s.retrying(n+1, s.explain(err))
		if err := backoff(ctx, n); err != nil {
			return store.Wrap(backend, "update", err)
		}
	}
}

// ownError is what fn returned.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

func (s *Store) update(ctx context.Context, fn func(store.Store) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return unsent{err}
	}
	// After a commit this does nothing. The context may be done by then, and the transaction must end all the same.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	inside := &txStore{s: s, tx: tx}
	err = fn(inside)
	inside.tx = nil // what fn kept answers ErrClosed
	if err != nil {
		return ownError{err}
	}
	return tx.Commit(ctx)
}
