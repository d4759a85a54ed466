package pgledger

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// With returns the ledger within the caller's transaction: a spend commits or rolls back with
// the rows that it pays for, and nothing is approved before the transaction commits. The
// accounts stay locked until it ends, so decide late and commit soon. At REPEATABLE READ and
// above the server may answer with a serialization failure.
//
// Like the transaction, the ledger is for one goroutine at a time. After an error the
// transaction can only be rolled back. Closing the ledger does nothing.
func (l *Ledger) With(tx pgx.Tx) ledger.Ledger {
	j := &txLedger{tx: tx}
	j.calls = calls{l, j.within, j.within, false}
	return j
}

// txLedger is a ledger within the caller's transaction.
type txLedger struct {
	calls
	tx pgx.Tx
}

func (j *txLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return j.DecideAll(ctx, []*ledger.Job{job})[0]
}

func (j *txLedger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	own := make([]error, len(jobs))
	err := j.within(ctx, "decide", func(ctx context.Context, q pgrun.Queryer) error {
		errs, err := j.l.decideIn(ctx, q, jobs)
		copy(own, errs)
		if isDuplicate(err) {
			return fmt.Errorf("%w: another transaction has just used the ID, or set rules; roll back and decide again",
				store.ErrUnavailable)
		}
		return err
	})
	for i := range own {
		own[i] = cmp.Or(err, own[i])
	}
	return own
}

// within is the via of the transaction.
func (j *txLedger) within(ctx context.Context, op string, f func(context.Context, pgrun.Queryer) error) error {
	return j.l.run.Within(ctx, j.tx, op, func(ctx context.Context) error { return f(ctx, j.tx) })
}

// Close does nothing: the transaction belongs to the caller.
func (j *txLedger) Close() error { return nil }
