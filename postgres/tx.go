package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/store"
)

// With returns a store whose calls are part of the caller's transaction: a charge commits, or rolls back, with the rows that it
// pays for. Nothing is granted until the transaction commits.
//
// The row of a bucket stays locked from its first fill until the transaction ends, and everybody else who fills that bucket
// waits as long: fill late, commit soon. Transactions that fill several buckets by several calls can deadlock if they do so in
// different orders; one [store.Store.Apply], or TryFillupAll, cannot.
//
// Like the transaction, the store is for one goroutine at a time. After an error the transaction can only be rolled back; since
// nothing is applied before it commits, no outcome is unknown. Closing the store does nothing.
func (s *Store) With(tx pgx.Tx) store.Store { return &txStore{s: s, tx: tx} }

// txStore is a store in the caller's transaction.
type txStore struct {
	s  *Store
	tx pgx.Tx
}

func (t *txStore) ready(ctx context.Context) error {
	if t.tx == nil {
		return store.ErrClosed
	}
	return t.s.ready(ctx)
}

func (t *txStore) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := t.ready(ctx); err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	if op.Mode > store.Always {
		return store.State{}, store.Wrap(backend, "fill", errors.ErrUnsupported)
	}
	if combinable(&op) && op.Mode == store.IfFits {
		// One statement decides nearly always; where another transaction was faster, the locked row does.
		req := &fillRequest{In: op}
		g := group{reqs: []*fillRequest{req}}
		rows, err := t.s.decisions(ctx, t.tx, t.s.tryOne(&op), []group{g})
		if err != nil {
			return store.State{}, store.Wrap(backend, "fill", t.s.looked(ctx, err))
		}
		if len(answerTries(t.s, g, rows[0])) == 0 {
			return req.Out, nil
		}
	}
	results, err := t.s.transact(ctx, t.tx, []store.Txn{{op}}, false)
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", t.s.looked(ctx, err))
	}
	st, err := one(results, nil)
	return st, store.Wrap(backend, "fill", err)
}

func (t *txStore) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := t.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	results, err := t.s.transact(ctx, t.tx, txns, false)
	if err != nil {
		return nil, store.Wrap(backend, "apply", t.s.looked(ctx, err))
	}
	for i := range results {
		results[i].Err = store.Wrap(backend, "apply", results[i].Err)
	}
	return results, nil
}

func (t *txStore) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := t.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	states, err := t.s.readFrom(ctx, t.tx, buckets)
	return states, store.Wrap(backend, "read", t.s.looked(ctx, err))
}

func (t *txStore) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if err := t.ready(ctx); err != nil || limit <= 0 {
		return nil, store.Wrap(backend, "scan", err)
	}
	page, err := t.s.scanFrom(ctx, t.tx, prefix, after, limit)
	return page, store.Wrap(backend, "scan", t.s.looked(ctx, err))
}

func (t *txStore) Delete(ctx context.Context, keys ...string) error {
	if err := t.ready(ctx); err != nil || len(keys) == 0 {
		return store.Wrap(backend, "delete", err)
	}
	_, err := t.tx.Exec(ctx, t.s.sql.remove, keys)
	return store.Wrap(backend, "delete", t.s.looked(ctx, err))
}

// Prune is not part of a transaction: it would keep what it removes locked until the end.
func (t *txStore) Prune(context.Context) (int64, error) {
	return 0, store.Wrap(backend, "prune", errors.ErrUnsupported)
}

func (t *txStore) Close() error { return nil }
