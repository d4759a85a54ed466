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
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/spend/ledger"
)

// apply notes what a job changed, for the jobs after it and for the end of the flight.
func (f *flight) apply(c *ledger.Changes) {
	for _, a := range c.Accounts {
		f.accounts[a.Key] = a
		f.dirty[a.Key] = true
	}
	f.entries = append(f.entries, c.Entries...)
	for i := range c.Requests {
		r := c.Requests[i]
		f.requests[r.ID] = &r
		f.fresh[r.ID] = true
	}
	for _, s := range c.Spends {
		changed := *f.requests[s.ID]
		changed.Spend = s.Spend
		f.requests[s.ID] = &changed
		if !f.fresh[s.ID] {
			f.spends[s.ID] = true
		}
	}
	f.opened = append(f.opened, c.Opened...)
	f.closed = append(f.closed, c.Closed...)
	f.drops = append(f.drops, c.Drop...)
}

// store stores what has changed and commits.
func (f *flight) store(ctx context.Context) error {
	b := &pgx.Batch{}
	f.storeAccounts(b)
	f.storeEntries(b)
	f.storeRequests(b)
	f.storeHolds(b)
	if f.own && b.Len() == 0 {
		b.Queue("ROLLBACK")
		return f.q.SendBatch(ctx, b).Close()
	}
	var unused []string
	for _, key := range f.created {
		if !f.dirty[key] {
			unused = append(unused, key)
		}
	}
	if len(unused) > 0 {
		b.Queue(f.sql.unused, unused)
	}
	if f.own {
		b.Queue("COMMIT").Exec(func(ct pgconn.CommandTag) error {
			if ct.String() == "ROLLBACK" {
				return pgx.ErrTxCommitRollback
			}
			return nil
		})
	}
	if b.Len() == 0 {
		return nil
	}
	return f.q.SendBatch(ctx, b).Close()
}

func (f *flight) storeAccounts(b *pgx.Batch) {
	if len(f.dirty) == 0 {
		return
	}
	keys := slices.Sorted(maps.Keys(f.dirty))
	states, next := make([][]byte, len(keys)), make([]int64, len(keys))
	afters, widths := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		a := f.accounts[key]
		states[i], next[i] = a.State, a.NextExpiry
		after, width := make([]int64, len(a.Watch)), make([]int64, len(a.Watch))
		for j, w := range a.Watch {
			after[j], width[j] = w.After, w.Width
		}
		afters[i], widths[i] = array(after), array(width)
	}
	b.Queue(f.sql.save, keys, states, next, afters, widths)
}

// array writes numbers as the server reads an array.
func array(list []int64) string {
	var s strings.Builder
	s.WriteByte('{')
	for i, n := range list {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(strconv.FormatInt(n, 10))
	}
	s.WriteByte('}')
	return s.String()
}

func (f *flight) storeEntries(b *pgx.Batch) {
	if n := len(f.entries); n > 0 {
		at, dated := make([]time.Time, n), make([]time.Time, n)
		var numbers [6][]int64 // seq, part, amount, used, held, count
		var texts [5][]string  // currency, kind, account, id, spend
		tags, refused := make([]pgtype.Text, n), make([]pgtype.Text, n)
		for i := range f.entries {
			e := &f.entries[i]
			at[i], dated[i] = timestamp(e.At), timestamp(e.Dated)
			for j, v := range [...]int64{e.Seq, e.Part, e.Amount, e.Used, e.Held, e.Count} {
				numbers[j] = append(numbers[j], v)
			}
			for j, v := range [...]string{e.Currency, e.Kind, e.Account, e.RequestID, e.SpendID} {
				texts[j] = append(texts[j], v)
			}
			if len(e.Tags) > 0 {
				tags[i] = asJSON(e.Tags)
			}
			if len(e.Refused) > 0 {
				refused[i] = asJSON(e.Refused)
			}
		}
		b.Queue(f.sql.append, at, dated, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5],
			texts[0], texts[1], texts[2], texts[3], texts[4], tags, refused)
	}
	if len(f.drops) > 0 {
		var accounts []string
		var times []time.Time
		for _, d := range f.drops {
			accounts, times = append(accounts, d.Account), append(times, bound(d.At))
		}
		b.Queue(f.sql.drop, accounts, times)
	}
}

// asJSON cannot fail: names and values are text.
func asJSON(v any) pgtype.Text {
	text, err := json.Marshal(v)
	return pgtype.Text{String: string(text), Valid: err == nil}
}

func (f *flight) storeRequests(b *pgx.Batch) {
	if len(f.fresh) > 0 {
		ids := slices.Sorted(maps.Keys(f.fresh))
		var at []time.Time
		var accounts []string
		var content, answers, spends [][]byte
		for _, id := range ids {
			r := f.requests[id]
			at, accounts = append(at, timestamp(r.At)), append(accounts, strings.Join(r.Accounts, "\n"))
			content, answers, spends = append(content, r.Content), append(answers, r.Answer), append(spends, r.Spend)
		}
		b.Queue(f.sql.answer, ids, at, accounts, content, answers, spends)
	}
	if len(f.spends) > 0 {
		ids := slices.Sorted(maps.Keys(f.spends))
		var spends [][]byte
		for _, id := range ids {
			spends = append(spends, f.requests[id].Spend)
		}
		b.Queue(f.sql.spends, ids, spends)
	}
}

// storeHolds stores what was opened and not closed again, and deletes the rest.
func (f *flight) storeHolds(b *pgx.Batch) {
	queue := func(sql string, list []ledger.Hold) {
		if len(list) == 0 {
			return
		}
		var accounts, spends []string
		var expires []time.Time
		for _, h := range list {
			accounts, expires, spends = append(accounts, h.Account), append(expires, timestamp(h.Expires)), append(spends, h.SpendID)
		}
		b.Queue(sql, accounts, expires, spends)
	}
	opened := slices.DeleteFunc(slices.Clone(f.opened), func(h ledger.Hold) bool { return slices.Contains(f.closed, h) })
	queue(f.sql.hold, opened)
	queue(f.sql.unhold, f.closed)
}
