package pgledger

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// With returns the ledger within the caller's transaction: a spend commits or rolls back with
// the rows that it pays for, and nothing is approved before the transaction commits. The
// accounts stay locked until it ends, so decide late and commit soon. At REPEATABLE READ and
// above the server may answer with a serialization failure.
//
// Like the transaction, the ledger is for one goroutine at a time. After an error the
// transaction can only be rolled back. After a rollback to a savepoint, make the Budgets over the
// ledger anew: they remember entries that are gone. Closing the ledger does nothing.
func (l *Ledger) With(tx pgx.Tx) ledger.Ledger { return &joined{l: l, tx: tx} }

// joined is a ledger within the caller's transaction.
type joined struct {
	l  *Ledger
	tx pgx.Tx
}

func (j *joined) Decide(ctx context.Context, job *ledger.Job) error {
	return j.DecideAll(ctx, []*ledger.Job{job})[0]
}

func (j *joined) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	own := make([]error, len(jobs))
	err := j.l.run.Within(ctx, j.tx, "decide", func(ctx context.Context) error {
		errs, err := j.l.newRows(j.tx, false).decide(ctx, jobs)
		copy(own, errs)
		if isDuplicate(err) {
			return fmt.Errorf("%w: another transaction has just used the ID; roll back and decide again",
				store.ErrUnavailable)
		}
		return err
	})
	for i := range own {
		own[i] = cmp.Or(err, own[i])
	}
	return own
}

func (j *joined) View(ctx context.Context, job *ledger.Job) error {
	var own error
	err := j.l.run.Within(ctx, j.tx, "view", func(ctx context.Context) (err error) {
		own, err = j.l.newRows(j.tx, false).view(ctx, job)
		return err
	})
	return cmp.Or(err, own)
}

func (j *joined) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	err = j.l.run.Within(ctx, j.tx, "history", func(ctx context.Context) (err error) {
		list, err = j.l.history(ctx, j.tx, account, before, limit)
		return err
	})
	return list, err
}

func (j *joined) Accounts(ctx context.Context, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = j.l.run.Within(ctx, j.tx, "accounts", func(ctx context.Context) (err error) {
		list, err = j.l.accounts(ctx, j.tx, prefix, after, limit)
		return err
	})
	return list, err
}

func (j *joined) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	err = j.l.run.Within(ctx, j.tx, "prune", func(ctx context.Context) (err error) {
		removed, err = j.l.prune(ctx, j.tx, prefix, before)
		return err
	})
	return removed, err
}

// Close does nothing: the transaction belongs to the caller.
func (j *joined) Close() error { return nil }
