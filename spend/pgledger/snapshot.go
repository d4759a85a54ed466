package pgledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// Locked reports whether the jobs hold an account. A lane that skips rows has not read those that
// another transaction holds.
func (r *rows) Locked(account string) bool { return r.ids[account] != 0 }

// Account returns a working set. A missing account has no State.
func (r *rows) Account(key string) (ledger.Account, error) {
	if a, ok := r.accounts[key]; ok {
		return a, nil
	}
	return ledger.Account{Key: key}, nil
}

// Rules returns the newest rules of a budget. Budgets that no job has named were not looked for.
func (r *rows) Rules(budget string) (ledger.Rules, error) {
	if _, asked := r.known[budget]; !asked {
		return ledger.Rules{}, fmt.Errorf("%w: the job does not name the budget whose rules it reads", errors.ErrUnsupported)
	}
	return r.rules[budget], nil
}

// Request returns the answer to an ID, or nil.
func (r *rows) Request(id string) (*ledger.Request, error) {
	if request, ok := r.requests[id]; ok {
		return request, nil
	}
	var found *ledger.Request
	args := []any{idColumn([]string{id}), r.l.run.Now(), []string{}, [][]byte{}}
	err := r.query(r.l.sql["requests"], args, func(row pgx.Rows) error {
		var now pgrun.Instant
		var waits bool
		var none revision
		request, err := scanRequest(row, []any{&now, &waits}, none.fields()...)
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

// Entries lists entries by date. Declines of several accounts ask for the entries after one edge.
// So the entries come with the pages of as many other accounts as were asked for before.
func (r *rows) Entries(
	account string, after ledger.Place, upto int64, limit int,
) (list []ledger.Entry, through ledger.Place, err error) {
	own := r.ids[account]
	keys := map[int64]string{own: account}
	for key, id := range r.ids {
		if len(keys) > r.misses || limit > book.MostKept {
			break
		}
		if _, _, kept := r.pages.Get(key, after, upto, limit); id != 0 && !kept {
			keys[id] = key
		}
	}
	r.misses += len(keys)
	pages := make(map[int64]*book.Listing)
	ids := slices.Sorted(maps.Keys(keys))
	for _, id := range ids {
		pages[id] = book.NewListing(upto, min(limit, math.MaxInt32)+1)
	}
	places := column(ids, func(id *int64) ledger.Place { // pruned entries may wait for the end of their partition
		if pruned := r.accounts[keys[*id]].Pruned; pruned != 0 && pruned >= after.Dated {
			return ledger.EndOf(pruned)
		}
		return after
	})
	dates := column(places, func(p *ledger.Place) time.Time { return bound(p.Dated) })
	seqs := column(places, func(p *ledger.Place) int64 { return p.Seq })
	rows := min(limit, math.MaxInt32) + 1
	args := []any{ids, dates, seqs, bound(upto), rows}
	err = r.query(r.l.sql["entries"], args, func(row pgx.Rows) error {
		var id int64
		var line listed
		if err := row.Scan(append([]any{&id}, line.fields()...)...); err != nil {
			return err
		}
		return line.addTo(pages[id], keys[id])
	})
	if err != nil {
		return nil, through, err
	}
	for id, key := range keys {
		page, end := pages[id].Page()
		if r.pages.Keep(key, after, page, end, limit); id == own {
			list, through = page, end
		}
	}
	return list, through, nil
}

// Since lists entries by number.
func (r *rows) Since(account string, after ledger.Position, limit int) (list []ledger.Entry, err error) {
	from := after.At
	if pruned := r.accounts[account].Pruned; pruned != 0 { // these may wait for the end of their partition
		from = max(from, pruned+1)
	}
	err = r.query(r.l.sql["since"], []any{r.ids[account], bound(from), after.Seq, limit}, entriesInto(&list, account))
	slices.SortFunc(list, func(x, y ledger.Entry) int { return cmp.Compare(x.Seq, y.Seq) })
	return list, err
}

// stored compares holds in the order of the index.
func stored(a, b ledger.Hold) int {
	return cmp.Or(cmp.Compare(a.Expires, b.Expires), bytes.Compare(idBytes(a.SpendID), idBytes(b.SpendID)))
}

// Open lists open holds: those in the row of the account, and others. The statement finds one more,
// for next.
func (r *rows) Open(
	account string, after ledger.Hold, upto int64, limit int,
) (open []ledger.Hold, next int64, err error) {
	if after.Expires == 0 {
		after.Expires = first
	}
	var due []ledger.Hold
	for _, h := range r.holds[account] {
		if stored(h, after) <= 0 {
			continue
		}
		if h.Expires <= upto {
			due = append(due, h)
		} else if next == 0 || h.Expires < next {
			next = h.Expires
		}
	}
	args := append([]any{r.ids[account], bound(upto), min(limit, math.MaxInt32) + 1}, r.ids.holdColumns(due)[1:]...)
	args = append(args, bound(after.Expires), idBytes(after.SpendID))
	err = r.query(r.l.sql["holds"], args, func(row pgx.Rows) error {
		var expires pgrun.Instant
		var spend pgrun.Octets
		request, err := scanRequest(row, []any{&expires, &spend})
		switch {
		case err != nil:
			return err
		case spend == nil:
			if expires.Valid && (next == 0 || expires.Micros < next) {
				next = expires.Micros
			}
			return nil
		case request.ID != "":
			r.requests[request.ID] = request
		}
		open = append(open, ledger.Hold{Account: account, Expires: expires.Micros, SpendID: idText(spend)})
		return nil
	})
	slices.SortFunc(open, stored)
	if len(open) > limit {
		open, next = open[:limit], open[limit].Expires
	}
	return open, next, err
}
