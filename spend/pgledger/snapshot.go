package pgledger

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// A batch is the ledger.Snapshot of its jobs: each job sees the rows that were read with the
// changes of the jobs before it.

func (b *batch) Now() int64 { return b.now }

func (b *batch) Locked(account string) bool {
	_, asked := b.ids[account]
	return asked
}

func (b *batch) Account(key string) (ledger.Account, error) {
	if a, ok := b.accounts[key]; ok {
		return a, nil
	}
	return ledger.Account{Key: key}, nil
}

// fail ends the batch: nothing is stored, even if the job ignores the error.
func (b *batch) fail(err error) error {
	if err != nil && b.failed == nil {
		b.failed = err
	}
	return err
}

func (b *batch) Request(id string) (*ledger.Request, error) {
	if r, ok := b.requests[id]; ok {
		return r, nil
	}
	b.requests[id] = nil
	err := b.query(b.l.sql.requests, []any{idColumn([]string{id}), b.l.run.Now()}, func(rows pgx.Rows) error {
		var now pgrun.Instant
		r, err := scanRequest(rows, &now)
		if err == nil && r.ID != "" {
			b.requests[r.ID] = r
		}
		return err
	})
	return b.requests[id], b.fail(err)
}

// first and last bound the times that a statement compares with the server's. The earliest window
// of the earliest clock begins 2^53 microseconds and 100 years before 1970.
const (
	first = -20_000_000_000_000_000 // in the year 1336
	last  = 200_000_000_000_000_000
)

func bound(us int64) time.Time { return pgrun.Timestamp(max(first, min(last, us))) }

func (b *batch) Entries(account string, after, upto int64, limit int) ([]ledger.Entry, int64, error) {
	list, through, err := b.stored(account, after, upto, limit)
	if err != nil {
		return nil, 0, b.fail(err)
	}
	list = slices.Clone(list)
	for i := range b.entries {
		switch e := &b.entries[i]; {
		case e.Account != account || e.Dated <= after:
		case e.Dated > upto:
			through = min(through, e.Dated-1)
		case e.Dated <= through:
			list = append(list, *e)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Entry) int {
		return cmp.Or(cmp.Compare(a.Dated, b.Dated), cmp.Compare(a.Seq, b.Seq))
	})
	return list, through, nil
}

// span is a range of the entries of an account.
type span struct {
	account     string
	after, upto int64
	limit       int
}

// page is the answer of the table to a span. It stays true in a transaction that holds the account,
// or sees one state of the database.
type page struct {
	list    []ledger.Entry
	through int64
}

// mostPages is how many pages a batch keeps. A job that reads a long history asks for none twice.
const mostPages = 64

// stored returns the entries of a range that the table has, read before or now.
func (b *batch) stored(account string, after, upto int64, limit int) (list []ledger.Entry, through int64, err error) {
	for _, w := range b.watched[window{account, after}] {
		if !w.read || upto >= w.later || w.begun == readAhead || w.fixed == readAhead {
			continue
		}
		through = w.later - 1
		for _, e := range w.entries {
			if e.Dated <= upto {
				list = append(list, e)
			} else {
				through = min(through, e.Dated-1)
			}
		}
		return list, through, nil
	}
	asked := span{account, after, upto, limit}
	if p, ok := b.pages[asked]; ok {
		return p.list, p.through, nil
	}
	defer func() {
		if err == nil && len(b.pages) < mostPages {
			b.pages[asked] = page{list, through}
		}
	}()
	for ; ; limit *= 4 {
		list = nil
		args := []any{b.ids[account], bound(after), bound(upto), limit}
		if err := b.query(b.l.sql.entries, args, entriesInto(&list, account)); err != nil {
			return nil, 0, err
		}
		// Where the limit cut off one of the two parts, its last date may be incomplete.
		through = upto
		for _, corrects := range [...]bool{false, true} {
			n, end := 0, int64(math.MinInt64)
			for i := range list {
				if (list[i].Part != list[i].Seq) == corrects {
					n++
					end = max(end, list[i].Dated)
				}
			}
			if n == limit {
				through = min(through, end-1)
			}
		}
		if through > after {
			return slices.DeleteFunc(list, func(e ledger.Entry) bool { return e.Dated > through }), through, nil
		}
	}
}

func (b *batch) Since(account string, after ledger.Position) ([]ledger.Entry, error) {
	var list []ledger.Entry
	err := b.query(b.l.sql.since, []any{b.ids[account], bound(after.At), after.Seq}, entriesInto(&list, account))
	for i := range b.entries {
		if e := &b.entries[i]; e.Account == account && e.Seq > after.Seq {
			list = append(list, *e)
		}
	}
	return list, b.fail(err)
}

// maxHolds is more than the holds that an account can have.
const maxHolds = 1 << 30

func (b *batch) Holds(account string, upto int64, limit int) ([]ledger.Request, int64, error) {
	type hold struct {
		expires int64
		id      string
	}
	var open []hold
	next := int64(0)
	// The statement finds one more, for next, and as many more as this batch has closed.
	rows := min(limit, maxHolds) + 1 + len(b.closed)
	err := b.query(b.l.sql.holds, []any{b.ids[account], bound(upto), rows}, func(rows pgx.Rows) error {
		var expires pgrun.Instant
		r, err := scanRequest(rows, &expires)
		switch {
		case err != nil:
			return err
		case r.ID == "" && expires.Valid:
			next = expires.Micros
		case r.ID != "":
			if b.requests[r.ID] == nil {
				b.requests[r.ID] = r
			}
			open = append(open, hold{expires.Micros, r.ID})
		}
		return nil
	})
	if err != nil {
		return nil, 0, b.fail(err)
	}
	for _, h := range b.opened {
		switch {
		case h.Account != account:
		case h.Expires <= upto:
			open = append(open, hold{h.Expires, h.SpendID})
		case next == 0 || h.Expires < next:
			next = h.Expires
		}
	}
	for _, h := range b.closed {
		if h.Account == account {
			open = slices.DeleteFunc(open, func(x hold) bool { return x.id == h.SpendID && x.expires == h.Expires })
		}
	}
	slices.SortFunc(open, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id))
	})
	if len(open) > limit {
		open, next = open[:limit], open[limit].expires
	}
	var held []ledger.Request
	for _, h := range open {
		held = append(held, *b.requests[h.id])
	}
	return held, next, nil
}

// history reads a page of entries.
func (l *Ledger) history(
	ctx context.Context, q pgrun.Queryer, account string, before ledger.Position, limit int,
) ([]ledger.Entry, error) {
	if before.Seq == 0 {
		before = ledger.Position{At: last, Seq: math.MaxInt64}
	}
	var list []ledger.Entry
	args := []any{account, bound(before.At), before.Seq, limit}
	_, err := l.run.QueryByIndex(ctx, q, l.sql.history, args, entriesInto(&list, account))
	return list, err
}

// accounts reads a page of accounts.
func (l *Ledger) accounts(
	ctx context.Context, q pgrun.Queryer, prefix, after string, limit int,
) (list []ledger.Account, err error) {
	_, err = l.run.QueryByIndex(ctx, q, l.sql.list, []any{prefix, after, limit, pgrun.PrefixEnd(prefix)}, func(rows pgx.Rows) error {
		var a ledger.Account
		err := rows.Scan(&a.Key, &a.NextExpiry)
		list = append(list, a)
		return err
	})
	return list, err
}

// prune removes requests that were decided before a time, and the spends that they began.
func (l *Ledger) prune(ctx context.Context, q pgrun.Queryer, prefix string, before int64) (removed int64, err error) {
	_, err = l.run.QueryByIndex(ctx, q, l.sql.forget, []any{prefix, pgrun.Timestamp(before)}, func(rows pgx.Rows) error {
		return rows.Scan(&removed)
	})
	return removed, err
}
