package sqliteledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
)

// With returns the ledger within tx, a transaction of the database of the store: a spend commits,
// or rolls back, with the rows that it pays for. Nothing is approved before tx commits, which it
// does with the synchronous setting of its connection. See the comment of sqlite.Store.With for the
// lock that the first decision takes, and for contexts.
//
// Like tx, the ledger is for one goroutine at a time. Roll tx back after an error. Close does
// nothing.
func (l *Ledger) With(tx *sql.Tx) ledger.Ledger {
	j := &txLedger{tx: tx}
	j.reads = reads{l, func(ctx context.Context, op string, fn func(*rows) error) error { return j.in(ctx, op, false, fn) }}
	return j
}

// txLedger is a ledger within a transaction that its owner ends.
type txLedger struct {
	reads
	tx *sql.Tx
}

func (j *txLedger) in(ctx context.Context, op string, writes bool, fn func(*rows) error) error {
	err := j.l.run.Within(ctx, j.tx, writes, func(ctx context.Context) error { return fn(newRows(j.l.sql.On(ctx, j.tx))) })
	return j.l.run.Wrap(op, err)
}

func (j *txLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return j.DecideAll(ctx, []*ledger.Job{job})[0]
}

func (j *txLedger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	errs := make([]error, len(jobs))
	err := j.in(ctx, "decide", true, func(r *rows) error {
		own, err := r.decide(jobs, j.l.clock)
		copy(errs, own)
		return err
	})
	for i := range errs {
		errs[i] = cmp.Or(err, errs[i])
	}
	return errs
}

// PruneRequests is not supported: it would keep the application's transaction open for long.
func (j *txLedger) PruneRequests(context.Context, string, int64) (int64, error) {
	return 0, j.l.run.Wrap("prune", fmt.Errorf("%w within a transaction; prune the ledger itself", errors.ErrUnsupported))
}

// Close does nothing: the owner of the transaction ends it.
func (j *txLedger) Close() error { return nil }
