package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// With returns a store whose calls are part of the caller's transaction: a charge commits, or
// rolls back, with the rows that it pays for. Nothing is granted until the transaction commits. A
// block that a refusal sets is lost if the transaction rolls back: to keep it, charge before the
// transaction writes anything else, and commit after a refusal.
//
// The transaction locks a bucket's row from its first fill of the bucket to its end. Everybody
// else who fills that bucket waits as long: fill late, commit soon. Transactions that fill
// several buckets by several calls can deadlock if they do so in different orders. One
// [store.Store.Apply], or TryFillupAll, cannot.
//
// One and a half times Options.StatementTimeout bounds each call, and not the transaction. A call
// that is cut off ends the transaction. Set idle_in_transaction_session_timeout, so that the server
// ends the transaction if the client stops. The caller's COMMIT can succeed with a warning that it
// has not waited for a synchronous standby; [WatchCommits] does not see it.
//
// Like the transaction, the store is for one goroutine at a time. After an error the
// transaction can only be rolled back. Nothing is applied before it commits, so no outcome is
// unknown. Prune answers [errors.ErrUnsupported], and Close does nothing.
func (s *Store) With(tx pgx.Tx) store.Store { return &txStore{s: s, tx: tx} }

// WithSQL is [Store.With] for a transaction of package database/sql, for applications whose own
// statements go through it: those of sqlc, bun, gorm and sqlx among them. The database must be
// open with pgx's driver, github.com/jackc/pgx/v5/stdlib. If the transaction is that of another
// driver, the first call answers [errors.ErrUnsupported] and sends nothing.
//
// database/sql sends one statement at a time. A TryFillup of an existing bucket is one statement
// all the same. A Hold, a penalty, or a call for several buckets is three to seven statements,
// which With sends in two round trips.
func (s *Store) WithSQL(tx *sql.Tx) store.Store { return &txStore{s: s, tx: pgrun.OverSQL(tx)} }

// txStore is a store in the caller's transaction.
type txStore struct {
	s  *Store
	tx pgrun.Queryer // nil after the end of Update
}

func (t *txStore) Fill(ctx context.Context, op store.Op) (store.State, error) {
	var results []store.Result
	err := t.s.run.Within(ctx, t.tx, "fill", func(ctx context.Context) (err error) {
		results, err = t.fill(ctx, op)
		return err
	})
	return one(t.s.wrapEach("fill", results), err)
}

// fill decides a TryFillup by the UPDATE of its bucket alone, if that has a row and room. Otherwise
// the locked row decides.
func (t *txStore) fill(ctx context.Context, op store.Op) ([]store.Result, error) {
	switch {
	case op.Mode > store.UpTo:
		return []store.Result{{Err: errors.ErrUnsupported}}, nil
	case op.Mode == store.Ask:
		return t.s.askIn(ctx, t.tx, []store.Txn{{op}})
	}
	if combinable(&op) {
		groups := []group{{reqs: []*fillRequest{{In: op}}}}
		rows, err := t.s.send(ctx, t.tx, groups, alone, nil)
		if err != nil {
			return nil, err
		}
		if rows[0].written {
			answerTries(t.s, groups[0], rows[0])
			return []store.Result{{States: []store.State{groups[0].reqs[0].Out}}}, nil
		}
	}
	return t.decide(ctx, []store.Txn{{op}})
}

// decide decides transactions under row locks.
func (t *txStore) decide(ctx context.Context, txns []store.Txn) ([]store.Result, error) {
	outcomes, err := t.s.decideIn(ctx, t.tx, [][]store.Txn{txns}, nil)
	if err != nil {
		return nil, err
	}
	return outcomes[0].results, nil
}

func (t *txStore) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = t.s.run.Within(ctx, t.tx, "apply", func(ctx context.Context) (err error) {
		if onlyAsks(txns) {
			results, err = t.s.askIn(ctx, t.tx, txns)
		} else {
			results, err = t.decide(ctx, txns)
		}
		return err
	})
	return t.s.wrapEach("apply", results), err
}

func (t *txStore) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = t.s.run.Within(ctx, t.tx, "read", func(ctx context.Context) (err error) {
		states, err = t.s.read(ctx, t.tx, buckets)
		return err
	})
	return states, err
}

func (t *txStore) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (page []store.Entry, err error) {
		err = t.s.run.Within(ctx, t.tx, "visit", func(ctx context.Context) (err error) {
			page, err = t.s.page(ctx, t.tx, prefix, after, limit)
			return err
		})
		return page, err
	}, f)
}

func (t *txStore) Size(ctx context.Context) (bytes int64, err error) {
	err = t.s.run.Within(ctx, t.tx, "size", func(ctx context.Context) error {
		bytes, err = t.s.size(ctx, t.tx)
		return err
	})
	return bytes, err
}

func (t *txStore) Delete(ctx context.Context, keys ...string) error {
	return t.s.run.Within(ctx, t.tx, "delete", func(ctx context.Context) error { return t.s.remove(ctx, t.tx, keys, nil) })
}

// Prune is not part of a transaction: the rows that it removes would stay locked until the end.
func (t *txStore) Prune(context.Context) (int64, error) {
	return 0, t.s.run.Wrap("prune", errors.ErrUnsupported)
}

func (t *txStore) Close() error { return nil }
