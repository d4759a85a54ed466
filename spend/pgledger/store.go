package pgledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// store stores changes, with one statement for each table, and commits. Without changes it rolls
// back, unless the transaction has read an answer that must be as durable as one that it would
// store.
func (r *rows) store(ctx context.Context, c *ledger.Changes) error {
	out := &pgx.Batch{}
	queue := func(name string, rows int, args ...any) {
		if rows > 0 {
			out.Queue(r.l.sql[name], args...)
		}
	}
	entries, err := r.ids.entryColumns(c.Entries)
	if err != nil {
		return err
	}
	opened, closed := r.placeHolds(c)
	drop, err := r.dropped(c.Drop)
	if err != nil {
		return err
	}
	queue("save", len(c.Accounts), r.accountColumns(c.Accounts)...)
	queue("append", len(c.Entries), entries...)
	queue("replace", len(c.Replaced), column(c.Replaced, func(q *ledger.Request) []byte { return idBytes(q.ID) }))
	requests := append(c.Requests, c.Replaced...)
	queue("answer", len(requests), r.ids.requestColumns(requests)...)
	queue("revise", len(c.Rules), ruleColumns(c.Rules)...)
	queue("open", len(opened), r.ids.holdColumns(opened)...)
	queue("unhold", len(closed), r.ids.holdColumns(closed)...)
	queue("spends", len(c.Spends), column(c.Spends, func(s *ledger.Request) []byte { return idBytes(s.ID) }),
		column(c.Spends, func(s *ledger.Request) []byte { return s.Spend }))
	queue("drop", len(drop), column(drop, func(d *ledger.Drop) int64 { return r.ids[d.Account] }),
		column(drop, func(d *ledger.Drop) time.Time { return bound(d.At) }))
	if out.Len() == 0 && r.durable {
		out.Queue(r.l.sql["durable"])
	}
	if r.own && out.Len() == 0 && len(c.Moved) == 0 && !r.open {
		out.Queue("ROLLBACK")
		return r.q.SendBatch(ctx, out).Close()
	}
	queue("unused", len(r.missing), column(r.missing, func(key *string) int64 { return r.ids[*key] }))
	for _, m := range c.Moved {
		queue("rename", 1, r.ids[m.From], m.To)
	}
	switch {
	case r.own && r.more: // the rows that follow commit
	case r.own:
		pgrun.QueueCommit(out)
	case out.Len() == 0:
		return nil
	default:
		out = pgrun.WrapByIndex(out)
	}
	return r.q.SendBatch(r.ctx, out).Close()
}

// dropped returns the drops that delete rows. In a table that is partitioned by range, the rows go
// with their partitions: until then all readers begin after the time up to which the account is
// pruned.
func (r *rows) dropped(all []ledger.Drop) ([]ledger.Drop, error) {
	if len(all) == 0 {
		return nil, nil
	}
	err := r.query(r.l.sql["ranged"], []any{r.l.run.Names.QualifiedEntries()}, func(row pgx.Rows) error {
		var ranged bool
		err := row.Scan(&ranged)
		if ranged {
			all = nil
		}
		return err
	})
	return all, err
}

// accountColumns returns the arguments of save.sql.
func (r *rows) accountColumns(list []ledger.Account) []any {
	return []any{
		column(list, func(a *ledger.Account) int64 { return r.ids[a.Key] }),
		column(list, func(a *ledger.Account) *time.Time { return instant(a.Pruned) }),
		column(list, func(a *ledger.Account) *time.Time { return instant(a.Due) }),
		column(list, func(a *ledger.Account) []byte { return a.Rules }),
		column(list, func(a *ledger.Account) *string {
			var numbers []int64
			for _, w := range a.Watch {
				numbers = append(numbers, w.After, w.Width)
			}
			return array(numbers)
		}),
		column(list, func(a *ledger.Account) []byte { return a.State }),
		column(list, func(a *ledger.Account) []byte { return pack(r.holds[a.Key]) }),
	}
}

// mostHolds is how many open holds are in the row of their account. A row of their own with its
// entry in the index takes four times as much of the log.
const mostHolds = 4

// placeHolds changes the holds in the rows of accounts, and returns the other changes.
func (r *rows) placeHolds(c *ledger.Changes) (opened, closed []ledger.Hold) {
	for _, h := range c.Closed {
		if i := slices.Index(r.holds[h.Account], h); i >= 0 {
			r.holds[h.Account] = slices.Delete(r.holds[h.Account], i, i+1)
		} else {
			closed = append(closed, h)
		}
	}
	for _, h := range c.Opened {
		if len(r.holds[h.Account]) < mostHolds {
			r.holds[h.Account] = append(r.holds[h.Account], h)
		} else {
			opened = append(opened, h)
		}
	}
	return opened, closed
}

// requestColumns returns the arguments of answer.sql. It sorts the list.
func (ids numbers) requestColumns(list []ledger.Request) []any {
	slices.SortFunc(list, func(x, y ledger.Request) int { return strings.Compare(x.ID, y.ID) })
	return []any{
		column(list, func(q *ledger.Request) []byte { return idBytes(q.ID) }),
		column(list, func(q *ledger.Request) time.Time { return pgrun.Timestamp(q.At) }),
		column(list, func(q *ledger.Request) int64 { return ids[q.Accounts[0]] }),
		column(list, func(q *ledger.Request) *int64 {
			if len(q.Accounts) < 2 {
				return nil
			}
			id := ids[q.Accounts[1]]
			return &id
		}),
		column(list, func(q *ledger.Request) *string {
			return array(column(q.Accounts[min(2, len(q.Accounts)):], func(key *string) int64 { return ids[*key] }))
		}),
		column(list, func(q *ledger.Request) []byte { return q.Content }),
		column(list, func(q *ledger.Request) []byte { return q.Answer }),
		column(list, func(q *ledger.Request) []byte { return q.Spend }),
	}
}

// holdColumns returns the arguments of open.sql and unhold.sql.
func (ids numbers) holdColumns(list []ledger.Hold) []any {
	return []any{
		column(list, func(h *ledger.Hold) int64 { return ids[h.Account] }),
		column(list, func(h *ledger.Hold) time.Time { return pgrun.Timestamp(h.Expires) }),
		column(list, func(h *ledger.Hold) []byte { return idBytes(h.SpendID) }),
	}
}

// array formats numbers as the server reads an array, or returns nil if there are none.
func array(numbers []int64) *string {
	if len(numbers) == 0 {
		return nil
	}
	text := strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(numbers))
	return &text
}

// column returns a column of rows, one value for each, as pgx encodes an array without reflection.
func column[R, T any](rows []R, value func(*R) T) pgtype.FlatArray[T] {
	list := make(pgtype.FlatArray[T], len(rows))
	for i := range rows {
		list[i] = value(&rows[i])
	}
	return list
}
