package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/store"
)

// Update runs fn in one transaction at READ COMMITTED. Everything that fn does on its store
// commits together when fn returns nil. If fn returns an error, nothing commits and Update
// returns that error. See [Store.With] for the rules inside.
//
// If another transaction fills the same buckets in another order, the two can deadlock. The server
// then ends one of them. The server also ends a transaction in which fn sends nothing for
// Options.StatementTimeout, so that a client that stops frees its rows. After either, Update runs
// fn again, up to three times. So fn must do nothing outside its store that must not happen twice.
// After fn has returned, its store answers [store.ErrClosed].
//
// If the error is [store.ErrUnknownOutcome], the transaction may have committed; after any other
// error it has not.
func (s *Store) Update(ctx context.Context, fn func(store.Store) error) error {
	return s.run.Transact(ctx, "update", func(tx pgx.Tx) error {
		inside := &txStore{s: s, tx: tx}
		defer func() { inside.tx = nil }() // a store that fn kept answers ErrClosed
		return fn(inside)
	})
}
