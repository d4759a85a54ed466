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
func (l *Ledger) With(tx *bbolt.Tx) ledger.Ledger { return l.join(&txLedger{tx: tx}) }

// In returns the ledger within the transaction of s, a store that [bolt.Store.Update] has given. A
// fill by s and a decision by the ledger then become durable together, or neither does. The ledger
// is of no use once Update has returned.
//
//	err := db.Update(ctx, func(s store.Store) error {
//		... // fill by s, and charge by budgets.With(l.In(s)); an error undoes both
//	})
func (l *Ledger) In(s store.Store) ledger.Ledger { return l.join(&txLedger{s: s}) }

func (l *Ledger) join(j *txLedger) *txLedger {
	j.reads = reads{l, func(ctx context.Context, op string, fn func(*buckets) error) error { return j.in(ctx, op, false, fn) }}
	return j
}

// txLedger is a ledger within a transaction that its owner ends.
type txLedger struct {
	reads
	tx *bbolt.Tx
	s  store.Store // whose transaction it is; nil for tx
}

// in runs fn in the transaction.
func (j *txLedger) in(ctx context.Context, op string, writes bool, fn func(*buckets) error) error {
	if err := ctx.Err(); err != nil {
		return store.Wrap(backend, op, err)
	}
	if j.s == nil {
		return explain(op, j.l.db.Within(j.tx, writes, func(tx *kv.Tx) error { return fn(j.l.names.in(tx)) }))
	}
	s, ok := j.s.(kv.Updating)
	if !ok {
		return explain(op, boltfile.Misconfigured("the store is not one that Update has given", nil))
	}
	return explain(op, s.InUpdate(func(tx *kv.Tx) error {
		if tx.DB() != j.l.db {
			return boltfile.Misconfigured("the transaction belongs to another file than the ledger", nil)
		}
		return fn(j.l.names.in(tx))
	}))
}

func (j *txLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return j.DecideAll(ctx, []*ledger.Job{job})[0]
}

func (j *txLedger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
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

// PruneRequests is not supported: it would keep the application's transaction open for long.
func (j *txLedger) PruneRequests(context.Context, string, int64) (int64, error) {
	err := fmt.Errorf("%w within a transaction; prune the ledger itself", errors.ErrUnsupported)
	return 0, store.Wrap(backend, "prune", err)
}

// Close does nothing: the owner of the transaction ends it.
func (j *txLedger) Close() error { return nil }
