package pgledger

import (
	"cmp"
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// view runs a job that changes nothing, on one state of the database.
func (l *Ledger) view(ctx context.Context, on via, own bool, job *ledger.Job) error {
	var failed error
	err := on(ctx, "view", func(ctx context.Context, q pgrun.Queryer) error {
		r := l.newRows(q, own)
		if err := r.read(ctx, []*ledger.Job{job}, false); err != nil {
			return err
		}
		_, failed = job.Run(r.batch())
		return r.failed
	})
	return cmp.Or(err, failed)
}

// history reads a page of entries.
func (l *Ledger) history(
	ctx context.Context, on via, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	if before.Seq == 0 {
		before = ledger.Position{At: last, Seq: math.MaxInt64}
	}
	err = on(ctx, "history", func(ctx context.Context, q pgrun.Queryer) error {
		args := []any{account, bound(before.At), before.Seq, limit}
		_, err := l.run.QueryByIndex(ctx, q, l.sql["history"], args, entriesInto(&list, account))
		return err
	})
	return list, err
}

// list reads a page of accounts.
func (l *Ledger) list(ctx context.Context, on via, prefix, after string, limit int) (list []ledger.Account, err error) {
	err = on(ctx, "accounts", func(ctx context.Context, q pgrun.Queryer) error {
		_, err := l.run.QueryByIndex(ctx, q, l.sql["list"], []any{prefix, after, limit, pgrun.PrefixEnd(prefix)}, func(row pgx.Rows) error {
			var a ledger.Account
			err := row.Scan(&a.Key)
			list = append(list, a)
			return err
		})
		return err
	})
	return list, err
}

// forget removes requests that were decided before a time, and the spends that they began.
func (l *Ledger) forget(ctx context.Context, on via, prefix string, before int64) (removed int64, err error) {
	err = on(ctx, "prune", func(ctx context.Context, q pgrun.Queryer) error {
		_, err := l.run.QueryByIndex(ctx, q, l.sql["forget"], []any{prefix, pgrun.Timestamp(before)}, func(row pgx.Rows) error {
			return row.Scan(&removed)
		})
		return err
	})
	return removed, err
}
