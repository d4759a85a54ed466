package pgledger

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// Locked reports whether the jobs hold an account.
func (r *rows) Locked(account string) bool {
	_, asked := r.ids[account]
	return asked
}

// Account returns a working set. A missing account has no State.
func (r *rows) Account(key string) (ledger.Account, error) {
	if a, ok := r.accounts[key]; ok {
		return a, nil
	}
	return ledger.Account{Key: key}, nil
}

// Request returns the answer to an ID, or nil.
func (r *rows) Request(id string) (*ledger.Request, error) {
	if request, ok := r.requests[id]; ok {
		return request, nil
	}
	var found *ledger.Request
	err := r.query(r.l.sql["requests"], []any{idColumn([]string{id}), r.l.run.Now()}, func(row pgx.Rows) error {
		var now pgrun.Instant
		request, err := scanRequest(row, &now)
		if request.ID != "" {
			found = request
		}
		return err
	})
	return found, err
}

// first and last bound the times that a statement compares with the server's. The earliest window
// of the earliest clock begins 2^53 microseconds and 100 years before 1970.
const (
	first = -20_000_000_000_000_000 // in the year 1336
	last  = 200_000_000_000_000_000
)

func bound(us int64) time.Time { return pgrun.Timestamp(max(first, min(last, us))) }

// mostPages is how many pages are kept for the edge of a window. Declines of one account by one
// rule ask for the same entries, to tell when the amount would fit.
const mostPages = 64

// Entries lists entries by date. Declines of several accounts ask for the entries after one edge. So
// each page that is not there comes with as many pages of other accounts as were asked for before.
func (r *rows) Entries(account string, after, upto int64, limit int) (list []ledger.Entry, through int64, err error) {
	if p := r.page(account, after, upto, limit); p != nil {
		return p.upto(upto)
	}
	pages := map[int64]*page{r.ids[account]: nil}
	keys := map[int64]string{r.ids[account]: account}
	for key, id := range r.ids {
		if id != 0 && len(pages) <= r.misses && r.page(key, after, upto, limit) == nil {
			pages[id], keys[id] = nil, key
		}
	}
	r.misses += len(pages)
	for most := limit + 1; ; most *= 4 { // one more, because the last date may be incomplete
		for id := range pages {
			pages[id] = &page{limit: limit, through: upto}
		}
		args := []any{slices.Sorted(maps.Keys(pages)), bound(after), bound(upto), most}
		err := r.query(r.l.sql["entries"], args, func(row pgx.Rows) error {
			var id int64
			var line entryRow
			if err := row.Scan(append([]any{&id}, line.fields()...)...); err != nil {
				return err
			}
			e, err := line.entry(keys[id])
			pages[id].list = append(pages[id].list, e)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		for id, p := range pages {
			at := window{keys[id], after}
			if p.cut(most); p.through < upto && len(p.list) < limit {
				continue
			}
			if delete(pages, id); len(r.pages[at]) < mostPages {
				r.pages[at] = append(r.pages[at], *p)
			}
			if keys[id] == account {
				list, through, err = p.upto(upto)
			}
		}
		if pages[r.ids[account]] == nil {
			return list, through, err
		}
	}
}

// page returns a page that answers a read of entries, or nil.
func (r *rows) page(account string, after, upto int64, limit int) *page {
	for i, p := range r.pages[window{account, after}] {
		if upto <= p.through || p.limit == limit && len(p.list) >= limit {
			return &r.pages[window{account, after}][i]
		}
	}
	return nil
}

// upto returns the entries of a page up to a date.
func (p *page) upto(date int64) (list []ledger.Entry, through int64, err error) {
	if n := slices.IndexFunc(p.list, func(e ledger.Entry) bool { return e.Dated > date }); n >= 0 {
		return p.list[:n:n], p.list[n].Dated - 1, nil
	}
	return p.list, p.through, nil
}

// Since lists entries by number.
func (r *rows) Since(account string, after ledger.Position) (list []ledger.Entry, err error) {
	err = r.query(r.l.sql["since"], []any{r.ids[account], bound(after.At), after.Seq}, entriesInto(&list, account))
	return list, err
}

// Open lists open holds. The statement finds one more, for next.
func (r *rows) Open(account string, upto int64, limit int) (open []ledger.Hold, next int64, err error) {
	err = r.query(r.l.sql["holds"], []any{r.ids[account], bound(upto), min(limit, math.MaxInt32) + 1}, func(row pgx.Rows) error {
		var expires pgrun.Instant
		request, err := scanRequest(row, &expires)
		switch {
		case err != nil:
			return err
		case request.ID == "" && expires.Valid:
			next = expires.Micros
		case request.ID != "":
			r.requests[request.ID] = request
			open = append(open, ledger.Hold{Account: account, Expires: expires.Micros, SpendID: request.ID})
		}
		return nil
	})
	slices.SortFunc(open, book.Order)
	if len(open) > limit {
		open, next = open[:limit], open[limit].Expires
	}
	return open, next, err
}
