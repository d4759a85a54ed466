package boltledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// With returns the ledger within tx, a transaction of the database that the application gave to
// bolt.New. Decisions last when the application commits tx, and are undone when it rolls back. A
// read-only transaction answers questions only. Like tx, the ledger is for one goroutine at a
// time. Roll tx back after an error. Close does nothing.
func (l *Ledger) With(tx *bbolt.Tx) ledger.Ledger { return &joined{l: l, tx: tx} }

// In returns the ledger within the transaction of s, a store that [bolt.Store.Update] has given. A
// fill by s and a decision by the ledger then become durable together, or neither does. The ledger is
// of no use once Update has returned.
//
//	err := db.Update(ctx, func(s store.Store) error {
//		... // fill by s, and charge by budgets.With(l.In(s)); an error undoes both
//	})
func (l *Ledger) In(s store.Store) ledger.Ledger { return &joined{l: l, s: s} }

// joined is a ledger within a transaction that its owner ends.
type joined struct {
	l  *Ledger
	tx *bbolt.Tx
	s  store.Store // whose transaction it is; nil for tx
}

// in runs fn in the transaction.
func (j *joined) in(ctx context.Context, op string, writes bool, fn func(*buckets) error) error {
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	if j.s == nil {
		return explain(op, j.l.db.Within(j.tx, writes, func(tx *kv.Tx) error { return fn(j.l.names.in(tx)) }))
	}
	return explain(op, kv.TxOf(j.s, func(tx *kv.Tx) error {
		if tx.DB() != j.l.db {
			return boltfile.Unavailable("the transaction belongs to another file than the ledger", nil)
		}
		return fn(j.l.names.in(tx))
	}))
}

func (j *joined) Decide(ctx context.Context, job *ledger.Job) error {
	return j.DecideAll(ctx, []*ledger.Job{job})[0]
}

func (j *joined) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	errs := make([]error, len(jobs))
	err := j.in(ctx, "decide", true, func(b *buckets) error {
		own, err := b.decide(jobs, j.l.clock.Now())
		for i := range own {
			errs[i] = explain("decide", own[i])
		}
		return err
	})
	for i := range errs {
		errs[i] = cmp.Or(err, errs[i])
	}
	return errs
}

func (j *joined) View(ctx context.Context, job *ledger.Job) error {
	return j.in(ctx, "view", false, func(b *buckets) error { return b.view(job, j.l.clock.Now()) })
}

func (j *joined) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	err = j.in(ctx, "history", false, func(b *buckets) (err error) {
		list, err = b.history(account, before, limit)
		return err
	})
	return list, err
}

func (j *joined) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = j.in(ctx, "accounts", false, func(b *buckets) (err error) {
		list, err = b.list(prefix, after, limit)
		return err
	})
	return list, err
}

// PruneRequests is not supported: it would keep the application's transaction open for long.
func (j *joined) PruneRequests(context.Context, string, int64) (int64, error) {
	err := fmt.Errorf("%w within a transaction; prune the ledger itself", errors.ErrUnsupported)
	return 0, store.Wrap(backend, "prune", err)
}

// Close does nothing: the owner of the transaction ends it.
func (j *joined) Close() error { return nil }
