package pgledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// via calls a function with the connection or the transaction on which it works.
type via func(ctx context.Context, op string, f func(context.Context, pgrun.Queryer) error) error

// calls are the calls of a ledger that decide nothing.
type calls struct {
	l           *Ledger
	look, prune via
	own         bool // see [rows]
}

// View runs a job on one state of the database. If the job has looked up the answer to an ID, View
// ends like a decision that was answered before, except on a standby. See [ledger.Ledger].
func (c calls) View(ctx context.Context, job *ledger.Job) error {
	var failed error
	err := c.look(ctx, "view", func(ctx context.Context, q pgrun.Queryer) error {
		r := c.l.newRows(q, c.own)
		if err := r.read(ctx, []*ledger.Job{job}, false); err != nil {
			return err
		}
		if _, failed = job.Run(r.batch()); r.failed != nil {
			return r.failed
		}
		return r.store(ctx, &ledger.Changes{})
	})
	return cmp.Or(err, failed)
}

// History lists entries, newest first. See [ledger.Ledger].
func (c calls) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	if before.Seq == 0 {
		before = ledger.Position{At: last, Seq: math.MaxInt64}
	}
	err = c.look(ctx, "history", func(ctx context.Context, q pgrun.Queryer) error {
		args := []any{account, bound(before.At), before.Seq, limit}
		_, err := c.l.run.QueryByIndex(ctx, q, c.l.sql["history"], args, entriesInto(&list, account))
		return err
	})
	return list, err
}

// Revisions lists the rules of a budget, newest first. See [ledger.Ledger].
func (c calls) Revisions(ctx context.Context, budget string, before int64, limit int) (list []ledger.Rules, err error) {
	err = c.look(ctx, "revisions", func(ctx context.Context, q pgrun.Queryer) error {
		args := []any{budget, cmp.Or(before, math.MaxInt64), limit}
		_, err := c.l.run.QueryByIndex(ctx, q, c.l.sql["revisions"], args, func(row pgx.Rows) error {
			var r revision
			err := row.Scan(r.fields()...)
			list = append(list, r.rules())
			return err
		})
		return err
	})
	return list, err
}

// Accounts lists accounts. See [ledger.Ledger].
func (c calls) Accounts(
	ctx context.Context, prefix, after string, due int64, limit int,
) (keys []string, next string, err error) {
	name, args := "list", []any{prefix, after, limit, pgrun.PrefixEnd(prefix)}
	if due != 0 {
		at, id := int64(first), int64(0)
		if after != "" {
			_, _ = fmt.Sscan(after, &at, &id)
		}
		name, args = "due", []any{strings.TrimSuffix(prefix, "/"), bound(due), bound(at), id, limit}
	}
	err = c.look(ctx, "accounts", func(ctx context.Context, q pgrun.Queryer) error {
		_, err := c.l.run.QueryByIndex(ctx, q, c.l.sql[name], args, func(row pgx.Rows) error {
			var key string
			var at pgrun.Instant
			var id int64
			err := row.Scan([]any{&key, &at, &id}[:len(row.FieldDescriptions())]...)
			if keys, next = append(keys, key), key; due != 0 {
				next = fmt.Sprint(at.Micros, " ", id)
			}
			return err
		})
		return err
	})
	if len(keys) < limit {
		next = ""
	}
	return keys, next, err
}

// Strays looks for entries and holds of accounts without a row. See [ledger.StrayFinder].
func (c calls) Strays(ctx context.Context) error {
	var ids []int64
	err := c.look(ctx, "strays", func(ctx context.Context, q pgrun.Queryer) error {
		_, err := c.l.run.QueryByIndex(ctx, q, c.l.sql["strays"], []any{10}, func(row pgx.Rows) error {
			var id int64
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		})
		return err
	})
	if err == nil && len(ids) > 0 {
		err = store.Wrap("pgledger", "strays", fmt.Errorf("%w: accounts have lost their rows, such as those with the ids %v", store.ErrCorrupt, ids))
	}
	return err
}

// prunePart is how many requests forget.sql removes at most.
const prunePart = 2000

// PruneRequests forgets requests, and the spends that they began. Each statement goes on from the
// time of the last one, so that it passes no removed rows. Rows lie in any order, so the last ones
// begin at the beginning. See [ledger.Ledger].
func (c calls) PruneRequests(ctx context.Context, prefix string, before int64) (removed int64, err error) {
	var pace book.Pace
	for since := int64(first); ; {
		var n int64
		var latest pgrun.Instant
		err := pace.Rest(ctx)
		if err == nil {
			err = c.prune(ctx, "prune", func(ctx context.Context, q pgrun.Queryer) error {
				defer pace.Worked(time.Now())
				args := []any{prefix, pgrun.Timestamp(before), bound(since)}
				_, err := c.l.run.QueryByIndex(ctx, q, c.l.sql["forget"], args, func(row pgx.Rows) error { return row.Scan(&n, &latest) })
				return err
			})
		}
		removed += n
		switch {
		case err != nil || n < prunePart && since == first:
			return removed, err
		case n < prunePart:
			since = first
		default:
			since = latest.Micros
		}
	}
}
