package sqliteledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/brimgo/brim/spend/ledger"
)

// reads are the calls of a ledger that change nothing. over runs a function on one state.
type reads struct {
	l    *Ledger
	over func(ctx context.Context, op string, fn func(*rows) error) error
}

var _ ledger.StrayFinder = reads{}

// View runs a job on one state. See [ledger.Ledger].
func (r reads) View(ctx context.Context, job *ledger.Job) error {
	var own error
	err := r.over(ctx, "view", func(rows *rows) (err error) {
		own, err = rows.view(job, r.l.clock)
		return err
	})
	return cmp.Or(err, own)
}

// History lists entries, newest first. See [ledger.Ledger].
func (r reads) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	if before.Seq == 0 {
		before = ledger.Position{At: math.MaxInt64, Seq: math.MaxInt64}
	}
	err = r.over(ctx, "history", func(rows *rows) error {
		list = nil
		return rows.entries("history", account, []any{account, before.At, before.Seq, limit}, func(e ledger.Entry) { list = append(list, e) })
	})
	return list, err
}

// Revisions lists the rules of a budget, newest first. See [ledger.Ledger].
func (r reads) Revisions(ctx context.Context, budget string, before int64, limit int) (list []ledger.Rules, err error) {
	err = r.over(ctx, "revisions", func(rows *rows) (err error) {
		list, err = rows.revisions(budget, cmp.Or(before, math.MaxInt64), limit, nil)
		return err
	})
	return list, err
}

// Accounts lists accounts. See [ledger.Ledger].
func (r reads) Accounts(
	ctx context.Context, prefix, after string, due int64, limit int,
) (keys []string, next string, err error) {
	name, args := "list", []any{prefix, after, limit}
	if due != 0 {
		at, id := int64(math.MinInt64), int64(0)
		if after != "" {
			_, _ = fmt.Sscan(after, &at, &id)
		}
		name, args = "due", []any{prefix, due, at, id, limit}
	}
	err = r.over(ctx, "accounts", func(rows *rows) error {
		keys = nil
		return rows.q.Each(name, args, func(found *sql.Rows) (bool, error) {
			var key string
			var at, id int64
			columns := []any{&key}
			if due != 0 {
				columns = append(columns, &at, &id)
			}
			err := found.Scan(columns...)
			if keys, next = append(keys, key), key; due != 0 {
				next = fmt.Sprint(at, " ", id)
			}
			return true, err
		})
	})
	if err != nil || len(keys) < limit {
		next = ""
	}
	return keys, next, err
}

// Strays looks for entries and holds of accounts without a row. See [ledger.StrayFinder].
func (r reads) Strays(ctx context.Context) error {
	return r.over(ctx, "strays", (*rows).strays)
}
