package pgledger

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// What jobs see: what was read, overlaid with what those before them have changed.

func (f *flight) Now() int64                 { return f.now }
func (f *flight) Locked(account string) bool { return f.locked[account] }

func (f *flight) Account(key string) (ledger.Account, error) {
	if a, ok := f.accounts[key]; ok {
		return a, nil
	}
	return ledger.Account{Key: key}, nil
}

// fail ends the flight: whatever a job makes of the error, nothing is stored.
func (f *flight) fail(err error) error {
	if err != nil && f.failed == nil {
		f.failed = err
	}
	return err
}

func (f *flight) Request(id string) (*ledger.Request, error) {
	if r, ok := f.requests[id]; ok {
		return r, nil
	}
	rows, err := f.q.Query(f.ctx, f.sql.requests, []string{id})
	if err != nil {
		return nil, f.fail(err)
	}
	defer rows.Close()
	f.requests[id] = nil
	err = f.scanRequests(rows)
	return f.requests[id], f.fail(err)
}

// before the first and after the last time that a timestamptz of the server's can be compared with.
const (
	first = -2_000_000_000_000_000 // in the year 1906
	last  = 200_000_000_000_000_000
)

func bound(us int64) time.Time { return timestamp(max(first, min(last, us))) }

func (f *flight) Entries(account string, after, upto int64, limit int) ([]ledger.Entry, int64, error) {
	list, through, err := f.stored(account, after, upto, limit)
	if err != nil {
		return nil, 0, f.fail(err)
	}
	list = slices.Clone(list)
	for i := range f.entries {
		if e := &f.entries[i]; e.Account == account && e.Dated > after && e.Dated <= through {
			list = append(list, *e)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Entry) int { return cmp.Or(cmp.Compare(a.Dated, b.Dated), cmp.Compare(a.Seq, b.Seq)) })
	return list, through, nil
}

// stored is what the table has of a range, read ahead or now.
func (f *flight) stored(account string, after, upto int64, limit int) (list []ledger.Entry, through int64, err error) {
	if w := f.watched[window{account, after}]; w != nil && upto <= w.upto && w.begun < readAhead && w.fixed < readAhead {
		for _, e := range w.entries {
			if e.Dated <= upto {
				list = append(list, e)
			}
		}
		return list, upto, nil
	}
	for ; ; limit *= 4 {
		rows, err := f.q.Query(f.ctx, f.sql.entries, account, bound(after), bound(upto), limit)
		if err != nil {
			return nil, 0, err
		}
		if list, err = scanEntries(rows, account); err != nil {
			return nil, 0, err
		}
		// Where one of the two parts was cut off, its last date may not be whole.
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

func (f *flight) Since(account string, after ledger.Position) ([]ledger.Entry, error) {
	rows, err := f.q.Query(f.ctx, f.sql.since, account, bound(after.At), after.Seq)
	if err != nil {
		return nil, f.fail(err)
	}
	list, err := scanEntries(rows, account)
	for i := range f.entries {
		if e := &f.entries[i]; e.Account == account && e.Seq > after.Seq {
			list = append(list, *e)
		}
	}
	return list, f.fail(err)
}

func (f *flight) Holds(account string, upto int64) ([]ledger.Request, int64, error) {
	type hold struct {
		expires int64
		id      string
	}
	var open []hold
	next := int64(0)
	rows, err := f.q.Query(f.ctx, f.sql.holds, account, bound(upto))
	if err != nil {
		return nil, 0, f.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var expires *time.Time
		r, err := scanRequest(rows, &expires)
		switch {
		case err != nil:
			return nil, 0, f.fail(err)
		case r.ID == "" && expires != nil:
			next = expires.UnixMicro()
		case r.ID != "":
			if f.requests[r.ID] == nil {
				f.requests[r.ID] = r
			}
			open = append(open, hold{expires.UnixMicro(), r.ID})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, f.fail(err)
	}
	for _, h := range f.opened {
		switch {
		case h.Account != account:
		case h.Expires <= upto:
			open = append(open, hold{h.Expires, h.SpendID})
		case next == 0 || h.Expires < next:
			next = h.Expires
		}
	}
	for _, h := range f.closed {
		if h.Account == account {
			open = slices.DeleteFunc(open, func(x hold) bool { return x.id == h.SpendID })
		}
	}
	slices.SortFunc(open, func(a, b hold) int { return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id)) })
	var held []ledger.Request
	for _, h := range open {
		held = append(held, *f.requests[h.id])
	}
	return held, next, nil
}

// history reads a page of entries.
func (l *Ledger) history(ctx context.Context, q queryer, account string, before ledger.Position, limit int) ([]ledger.Entry, error) {
	if before.Seq == 0 {
		before = ledger.Position{At: last, Seq: math.MaxInt64}
	}
	rows, err := q.Query(ctx, l.sql.history, account, bound(before.At), before.Seq, limit)
	if err != nil {
		return nil, err
	}
	return scanEntries(rows, account)
}

// list reads a page of accounts.
func (l *Ledger) list(ctx context.Context, q queryer, prefix, after string, limit int) (list []ledger.Account, err error) {
	rows, err := q.Query(ctx, l.sql.list, prefix, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a ledger.Account
		if err := rows.Scan(&a.Key, &a.NextExpiry); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
