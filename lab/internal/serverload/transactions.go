package serverload

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// Transacting is a store with transactions of several calls, as [postgres.Store] is.
type Transacting interface {
	store.Store
	Update(ctx context.Context, fn func(store.Store) error) error
	With(tx pgx.Tx) store.Store
}

var _ Transacting = (*postgres.Store)(nil)

// Transactions is the subject of a store with transactions.
type Transactions struct {
	Buckets
	store Transacting
	pool  *pgxpool.Pool
}

// NewTransactions returns the subject of a store with a defect, or with none. pool is for the
// caller's own transactions, and sound looks at what is there; see [Buckets].
func NewTransactions(s Transacting, d Defect, pool *pgxpool.Pool, sound store.Store) *Transactions {
	spoiled := &spoiledTransacting{Spoiled{s, d}, s}
	return &Transactions{Buckets{Store: spoiled, Sound: sound}, spoiled, pool}
}

// Kinds returns all kinds.
func (t *Transactions) Kinds() []Kind { return append(t.Buckets.Kinds(), Update, With) }

// Do carries out a step.
func (t *Transactions) Do(ctx context.Context, c Call, step int) error {
	each := func(s store.Store) error { return fillEach(ctx, s, ops(c, step)) }
	switch c.Kind {
	case Update:
		return t.store.Update(ctx, each)
	case With:
		return within(ctx, t.pool, func(tx pgx.Tx) error { return each(t.store.With(tx)) })
	}
	return t.Buckets.Do(ctx, c, step)
}

// within runs fn in a transaction of the caller's. A commit without an answer has an unknown
// outcome; before it, nothing is applied.
func within(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback(ctx) // the transaction may have ended with its connection
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("%w: commit: %w", store.ErrUnknownOutcome, err)
	}
	return nil
}
