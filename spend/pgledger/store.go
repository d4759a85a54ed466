package pgledger

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// store stores the changes and commits.
func (b *batch) store(ctx context.Context) error {
	out := &pgx.Batch{}
	if b.own && len(b.created) > 0 {
		slices.Sort(b.created)
		out.Queue(b.l.sql.create, b.created)
	}
	b.queueStore(out)
	b.queueRest(out)
	if b.own && out.Len() == 0 {
		out.Queue("ROLLBACK")
		return b.q.SendBatch(ctx, out).Close()
	}
	var unused []string
	for _, key := range b.created {
		if !b.dirty[key] {
			unused = append(unused, key)
		}
	}
	if len(unused) > 0 {
		out.Queue(b.l.sql.unused, unused)
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

// queueStore queues store.sql, if it has anything to store.
func (b *batch) queueStore(out *pgx.Batch) {
	if len(b.dirty) == 0 && len(b.entries) == 0 && len(b.fresh) == 0 && len(b.opened) == 0 {
		return
	}
	opened := slices.DeleteFunc(slices.Clone(b.opened), func(h ledger.Hold) bool {
		return slices.Contains(b.closed, h)
	})
	var decided *time.Time // by a reading of the server's clock before the rows were locked
	if b.recalled != nil && b.l.run.Clock == nil {
		at := pgrun.Timestamp(b.now)
		decided = &at
	}
	entries, ofEntries := entryColumns(b.entries)
	requests, ofRequests := b.requestColumns()
	holds, ofHolds := holdColumns(opened)
	args := slices.Concat(b.accountColumns(), entries, requests, holds, []any{decided}, ofEntries, ofRequests, ofHolds)
	out.Queue(b.l.sql.store, args...).Query(func(rows pgx.Rows) error {
		var one int
		_, err := pgx.ForEachRow(rows, []any{&b.clock, &one}, func() error { return nil })
		return err
	})
}

// accountColumns returns the columns of the accounts, in byte order of key.
func (b *batch) accountColumns() []any {
	keys := slices.Sorted(maps.Keys(b.dirty))
	n := len(keys)
	states, next := make([][]byte, n), make([]int64, n)
	afters, widths := make([]string, n), make([]string, n)
	var before [][]byte
	for i, key := range keys {
		a := b.accounts[key]
		states[i], next[i] = a.State, a.NextExpiry
		afters[i] = array(a.Watch, func(w ledger.Watch) int64 { return w.After })
		widths[i] = array(a.Watch, func(w ledger.Watch) int64 { return w.Width })
		if b.recalled != nil {
			before = append(before, b.recalled[key].State)
		}
	}
	return []any{keys, states, next, afters, widths, before}
}

// array formats numbers as the server reads an array.
func array(list []ledger.Watch, number func(ledger.Watch) int64) string {
	if len(list) == 0 {
		return "{}"
	}
	text := []byte{'{'}
	for i, w := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, number(w), 10)
	}
	return string(append(text, '}'))
}

// column returns a column of rows, one value for each.
func column[R, T any](rows []R, value func(*R) T) []T {
	list := make([]T, len(rows))
	for i := range rows {
		list[i] = value(&rows[i])
	}
	return list
}

// common returns the value that all rows of a column have, and nil for the column. Without such a
// value it returns the column.
func common[T comparable](list []T) ([]T, *T) {
	for _, v := range list {
		if v != list[0] {
			return list, nil
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return nil, &list[0]
}

// unless returns a column, or nil if it repeats another one.
func unless[T comparable](list, other []T) []T {
	if slices.Equal(list, other) {
		return nil
	}
	return list
}

// jsonColumn returns a column of values that few entries have.
func jsonColumn[T any](list []ledger.Entry, value func(*ledger.Entry) (T, bool)) []pgtype.Text {
	var texts []pgtype.Text
	for i := range list {
		if v, has := value(&list[i]); has {
			if texts == nil {
				texts = make([]pgtype.Text, len(list))
			}
			texts[i] = asJSON(v)
		}
	}
	return texts
}

// entryColumns returns the columns of the entries, and the values that all of them have.
func entryColumns(list []ledger.Entry) (columns, values []any) {
	at := column(list, func(e *ledger.Entry) int64 { return e.At })
	dated := unless(column(list, func(e *ledger.Entry) int64 { return e.Dated }), at)
	seq := column(list, func(e *ledger.Entry) int64 { return e.Seq })
	amount := column(list, func(e *ledger.Entry) int64 { return e.Amount })
	ids := column(list, func(e *ledger.Entry) string { return e.RequestID })
	at, sameAt := common(at)
	used, sameUsed := common(column(list, func(e *ledger.Entry) int64 { return e.Used }))
	held, sameHeld := common(column(list, func(e *ledger.Entry) int64 { return e.Held }))
	count, sameCount := common(column(list, func(e *ledger.Entry) int64 { return e.Count }))
	currency, sameCurrency := common(column(list, func(e *ledger.Entry) string { return e.Currency }))
	kind, sameKind := common(column(list, func(e *ledger.Entry) string { return e.Kind }))
	columns = []any{
		times(at), times(dated), seq, unless(column(list, func(e *ledger.Entry) int64 { return e.Part }), seq),
		amount, used, held, count, unless(column(list, func(e *ledger.Entry) int64 { return e.SpendAmount }), amount),
		currency, kind, column(list, func(e *ledger.Entry) string { return e.Account }), ids,
		unless(column(list, func(e *ledger.Entry) string { return e.SpendID }), ids),
		jsonColumn(list, func(e *ledger.Entry) (map[string]string, bool) { return e.Tags, len(e.Tags) > 0 }),
		jsonColumn(list, func(e *ledger.Entry) ([]string, bool) { return e.Refused, len(e.Refused) > 0 }),
		jsonColumn(list, func(e *ledger.Entry) ([]ledger.Credited, bool) { return e.Credited, len(e.Credited) > 0 }),
	}
	return columns, []any{timeOf(sameAt), sameUsed, sameHeld, sameCount, sameCurrency, sameKind}
}

// times returns a column of times; nil stays nil.
func times(list []int64) []time.Time {
	if list == nil {
		return nil
	}
	return column(list, func(us *int64) time.Time { return pgrun.Timestamp(*us) })
}

// timeOf returns a time, or nil.
func timeOf(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := pgrun.Timestamp(*us)
	return &t
}

// asJSON cannot fail: names and values are text.
func asJSON(v any) pgtype.Text {
	text, err := json.Marshal(v)
	return pgtype.Text{String: string(text), Valid: err == nil}
}

// requestColumns returns the columns of the new requests, in byte order of ID, and the values that
// all of them have.
func (b *batch) requestColumns() (columns, values []any) {
	ids := slices.Sorted(maps.Keys(b.fresh))
	list := column(ids, func(id *string) *ledger.Request { return b.requests[*id] })
	at, same := common(column(list, func(r **ledger.Request) int64 { return (*r).At }))
	return []any{
		ids, times(at), column(list, func(r **ledger.Request) string { return strings.Join((*r).Accounts, "\n") }),
		column(list, func(r **ledger.Request) []byte { return (*r).Content }),
		column(list, func(r **ledger.Request) []byte { return (*r).Answer }),
		column(list, func(r **ledger.Request) []byte { return (*r).Spend }),
	}, []any{timeOf(same)}
}

// holdColumns returns the columns of holds, and the values that all of them have.
func holdColumns(list []ledger.Hold) (columns, values []any) {
	expires, same := common(column(list, func(h *ledger.Hold) int64 { return h.Expires }))
	return []any{
		column(list, func(h *ledger.Hold) string { return h.Account }), times(expires),
		column(list, func(h *ledger.Hold) string { return h.SpendID }),
	}, []any{timeOf(same)}
}

// queueRest queues the statements that few batches need.
func (b *batch) queueRest(out *pgx.Batch) {
	if len(b.drops) > 0 {
		var accounts []string
		var times []time.Time
		for _, d := range b.drops {
			accounts, times = append(accounts, d.Account), append(times, bound(d.At))
		}
		out.Queue(b.l.sql.drop, accounts, times)
	}
	if len(b.spends) > 0 {
		ids := slices.Sorted(maps.Keys(b.spends))
		var spends [][]byte
		for _, id := range ids {
			spends = append(spends, b.requests[id].Spend)
		}
		out.Queue(b.l.sql.spends, ids, spends)
	}
	if len(b.closed) > 0 {
		out.Queue(b.l.sql.unhold, column(b.closed, func(h *ledger.Hold) string { return h.Account }),
			column(b.closed, func(h *ledger.Hold) time.Time { return pgrun.Timestamp(h.Expires) }),
			column(b.closed, func(h *ledger.Hold) string { return h.SpendID }))
	}
}
