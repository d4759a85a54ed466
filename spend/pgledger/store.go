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
	args := make([]any, 0, 33)
	args = b.accountColumns(args)
	args = b.entryColumns(args)
	args = b.requestColumns(args)
	opened := slices.DeleteFunc(slices.Clone(b.opened), func(h ledger.Hold) bool {
		return slices.Contains(b.closed, h)
	})
	args = append(args, holdColumns(opened)...)
	var decided *time.Time // by a reading of the server's clock before the rows were locked
	if b.recalled != nil && b.l.run.Clock == nil {
		at := pgrun.Timestamp(b.now)
		decided = &at
	}
	args = append(args, decided)
	out.Queue(b.l.sql.store, args...).Query(func(rows pgx.Rows) error {
		var one int
		_, err := pgx.ForEachRow(rows, []any{&b.clock, &one}, func() error { return nil })
		return err
	})
}

// accountColumns appends the columns of the accounts, in byte order of key.
func (b *batch) accountColumns(args []any) []any {
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
	return append(args, keys, states, next, afters, widths, before)
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

// entryColumns appends the columns of the entries. A column that repeats another one in every entry
// is null; see store.sql.
func (b *batch) entryColumns(args []any) []any {
	list := b.entries
	times := func(v func(*ledger.Entry) int64) []time.Time {
		column := make([]time.Time, len(list))
		for i := range list {
			column[i] = pgrun.Timestamp(v(&list[i]))
		}
		return column
	}
	numbers := func(v func(*ledger.Entry) int64) []int64 {
		column := make([]int64, len(list))
		for i := range list {
			column[i] = v(&list[i])
		}
		return column
	}
	texts := func(v func(*ledger.Entry) string) []string {
		column := make([]string, len(list))
		for i := range list {
			column[i] = v(&list[i])
		}
		return column
	}
	lists := func(has func(*ledger.Entry) bool, v func(*ledger.Entry) any) []pgtype.Text {
		if !some(list, has) {
			return nil
		}
		column := make([]pgtype.Text, len(list))
		for i := range list {
			if has(&list[i]) {
				column[i] = asJSON(v(&list[i]))
			}
		}
		return column
	}
	var dated []time.Time
	var part, first []int64
	var spends []string
	if some(list, func(e *ledger.Entry) bool { return e.Dated != e.At }) {
		dated = times(func(e *ledger.Entry) int64 { return e.Dated })
	}
	if some(list, func(e *ledger.Entry) bool { return e.Part != e.Seq }) {
		part = numbers(func(e *ledger.Entry) int64 { return e.Part })
	}
	if some(list, func(e *ledger.Entry) bool { return e.SpendAmount != e.Amount }) {
		first = numbers(func(e *ledger.Entry) int64 { return e.SpendAmount })
	}
	if some(list, func(e *ledger.Entry) bool { return e.SpendID != e.RequestID }) {
		spends = texts(func(e *ledger.Entry) string { return e.SpendID })
	}
	return append(args,
		times(func(e *ledger.Entry) int64 { return e.At }), dated,
		numbers(func(e *ledger.Entry) int64 { return e.Seq }), part,
		numbers(func(e *ledger.Entry) int64 { return e.Amount }),
		numbers(func(e *ledger.Entry) int64 { return e.Used }),
		numbers(func(e *ledger.Entry) int64 { return e.Held }),
		numbers(func(e *ledger.Entry) int64 { return e.Count }), first,
		texts(func(e *ledger.Entry) string { return e.Currency }),
		texts(func(e *ledger.Entry) string { return e.Kind }),
		texts(func(e *ledger.Entry) string { return e.Account }),
		texts(func(e *ledger.Entry) string { return e.RequestID }), spends,
		lists(func(e *ledger.Entry) bool { return len(e.Tags) > 0 }, func(e *ledger.Entry) any { return e.Tags }),
		lists(func(e *ledger.Entry) bool { return len(e.Refused) > 0 }, func(e *ledger.Entry) any { return e.Refused }),
		lists(func(e *ledger.Entry) bool { return len(e.Credited) > 0 }, func(e *ledger.Entry) any { return e.Credited }),
	)
}

// some reports whether an entry of the list has a property.
func some(list []ledger.Entry, has func(*ledger.Entry) bool) bool {
	for i := range list {
		if has(&list[i]) {
			return true
		}
	}
	return false
}

// asJSON cannot fail: names and values are text.
func asJSON(v any) pgtype.Text {
	text, err := json.Marshal(v)
	return pgtype.Text{String: string(text), Valid: err == nil}
}

// requestColumns appends the columns of the new requests, in byte order of ID.
func (b *batch) requestColumns(args []any) []any {
	ids := slices.Sorted(maps.Keys(b.fresh))
	n := len(ids)
	at, accounts := make([]time.Time, n), make([]string, n)
	content, answers, spends := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i, id := range ids {
		r := b.requests[id]
		at[i], accounts[i] = pgrun.Timestamp(r.At), strings.Join(r.Accounts, "\n")
		content[i], answers[i], spends[i] = r.Content, r.Answer, r.Spend
	}
	return append(args, ids, at, accounts, content, answers, spends)
}

// holdColumns returns the columns of holds.
func holdColumns(list []ledger.Hold) []any {
	n := len(list)
	accounts, expires, spends := make([]string, n), make([]time.Time, n), make([]string, n)
	for i, h := range list {
		accounts[i], expires[i], spends[i] = h.Account, pgrun.Timestamp(h.Expires), h.SpendID
	}
	return []any{accounts, expires, spends}
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
		out.Queue(b.l.sql.unhold, holdColumns(b.closed)...)
	}
}
