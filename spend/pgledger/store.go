package pgledger

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// store stores the changes, with one statement for each table, and commits.
func (b *batch) store(ctx context.Context) error {
	out, sql := &pgx.Batch{}, b.l.sql
	if len(b.dirty) > 0 {
		out.Queue(sql.save, b.accountColumns()...)
	}
	if len(b.entries) > 0 {
		args, err := b.entryColumns()
		if err != nil {
			return err
		}
		out.Queue(sql.append, args...)
	}
	if len(b.fresh) > 0 {
		out.Queue(sql.answer, b.requestColumns()...)
	}
	opened := slices.DeleteFunc(slices.Clone(b.opened), func(h ledger.Hold) bool { return slices.Contains(b.closed, h) })
	if len(opened) > 0 {
		out.Queue(sql.open, b.holdColumns(opened)...)
	}
	if len(b.closed) > 0 {
		out.Queue(sql.unhold, b.holdColumns(b.closed)...)
	}
	if len(b.spends) > 0 {
		ids := slices.Sorted(maps.Keys(b.spends))
		out.Queue(sql.spends, idColumn(ids), column(ids, func(id *string) []byte { return b.requests[*id].Spend }))
	}
	if len(b.drops) > 0 {
		out.Queue(sql.drop, column(b.drops, func(d *ledger.Drop) int64 { return b.ids[d.Account] }),
			column(b.drops, func(d *ledger.Drop) time.Time { return bound(d.At) }))
	}
	if b.own && out.Len() == 0 {
		out.Queue("ROLLBACK")
		return b.q.SendBatch(ctx, out).Close()
	}
	var unused []int64
	for _, key := range b.created {
		if !b.dirty[key] {
			unused = append(unused, b.ids[key])
		}
	}
	if len(unused) > 0 {
		out.Queue(sql.unused, unused)
	}
	switch {
	case b.own:
		pgrun.QueueCommit(out)
	case out.Len() == 0:
		return nil
	default:
		out = pgrun.WrapByIndex(out)
	}
	return b.q.SendBatch(ctx, out).Close()
}

// accountColumns returns the arguments of save.sql.
func (b *batch) accountColumns() []any {
	list := column(slices.Sorted(maps.Keys(b.dirty)), func(key *string) ledger.Account { return b.accounts[*key] })
	return []any{
		column(list, func(a *ledger.Account) int64 { return b.ids[a.Key] }),
		column(list, func(a *ledger.Account) []byte { return a.State }),
		column(list, func(a *ledger.Account) int64 { return a.NextExpiry }),
		column(list, func(a *ledger.Account) *string {
			var numbers []int64
			for _, w := range a.Watch {
				numbers = append(numbers, w.After, w.Width)
			}
			return array(numbers)
		}),
	}
}

// requestColumns returns the arguments of answer.sql.
func (b *batch) requestColumns() []any {
	list := make([]*ledger.Request, 0, len(b.fresh))
	for id := range b.fresh {
		list = append(list, b.requests[id])
	}
	slices.SortFunc(list, func(x, y *ledger.Request) int { return bytes.Compare(idBytes(x.ID), idBytes(y.ID)) })
	return []any{
		column(list, func(r **ledger.Request) []byte { return idBytes((*r).ID) }),
		column(list, func(r **ledger.Request) time.Time { return pgrun.Timestamp((*r).At) }),
		column(list, func(r **ledger.Request) int64 { return b.ids[(*r).Accounts[0]] }),
		column(list, func(r **ledger.Request) *string {
			return array(column((*r).Accounts[1:], func(key *string) int64 { return b.ids[*key] }))
		}),
		column(list, func(r **ledger.Request) []byte { return (*r).Content }),
		column(list, func(r **ledger.Request) []byte { return (*r).Answer }),
		column(list, func(r **ledger.Request) []byte { return (*r).Spend }),
	}
}

// holdColumns returns the arguments of open.sql and unhold.sql.
func (b *batch) holdColumns(list []ledger.Hold) []any {
	return []any{
		column(list, func(h *ledger.Hold) int64 { return b.ids[h.Account] }),
		column(list, func(h *ledger.Hold) time.Time { return pgrun.Timestamp(h.Expires) }),
		column(list, func(h *ledger.Hold) []byte { return idBytes(h.SpendID) }),
	}
}

// array formats numbers as the server reads an array, or returns nil if there are none.
func array(numbers []int64) *string {
	if len(numbers) == 0 {
		return nil
	}
	text := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	s := string(append(text, '}'))
	return &s
}

// column returns a column of rows, one value for each.
func column[R, T any](rows []R, value func(*R) T) []T {
	list := make([]T, len(rows))
	for i := range rows {
		list[i] = value(&rows[i])
	}
	return list
}

func times(list []int64) []time.Time {
	return column(list, func(us *int64) time.Time { return pgrun.Timestamp(*us) })
}

// timeOf returns a time, or nil.
func timeOf(us **int64) *time.Time {
	if *us == nil {
		return nil
	}
	t := pgrun.Timestamp(**us)
	return &t
}
