package memledger

import (
	"math"
	"slices"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// A memory is the [book.Reader] of its batches. It stays locked while a batch runs.

// Locked reports that nobody else changes an account.
func (l *memory) Locked(string) bool { return true }

// Account returns a working set.
func (l *memory) Account(key string) (ledger.Account, error) {
	if a := l.accounts[key]; a != nil {
		return a.Account, nil
	}
	return ledger.Account{Key: key}, nil
}

// Rules returns the newest rules of a budget.
func (l *memory) Rules(budget string) (r ledger.Rules, err error) {
	if all := l.rules[budget]; len(all) > 0 {
		r = all[len(all)-1]
	}
	return r, nil
}

// Request returns the answer to an ID, or nil.
func (l *memory) Request(id string) (*ledger.Request, error) {
	r := l.requests[id]
	if r == nil {
		return nil, nil
	}
	for i, a := range r.accounts {
		if a.Key != r.Accounts[i] { // it has moved
			r.Accounts = slices.Clone(r.Accounts)
			r.Accounts[i] = a.Key
		}
	}
	return r.Request, nil
}

// Entries walks the entries and the corrections of their dates side by side, at most limit of each.
func (l *memory) Entries(
	key string, after ledger.Place, upto int64, limit int,
) (page []ledger.Entry, through ledger.Place, err error) {
	a := l.accounts[key]
	if a == nil {
		return nil, ledger.EndOf(upto), nil
	}
	i, j := a.after(after), a.corrected(after)
	first, corrected, whole := i, j, true // the page is a part of the entries, which is not copied
	for {
		entry, date := ledger.EndOf(math.MaxInt64), ledger.EndOf(math.MaxInt64)
		if i < len(a.entries) {
			entry = ledger.Place{Dated: a.entries[i].At, Seq: a.entries[i].Seq}
		}
		if j < len(a.corrections) {
			date = a.corrections[j]
		}
		next := entry
		if date.Compare(next) < 0 {
			next = date
		}
		switch {
		case next.Dated > upto || next == ledger.EndOf(math.MaxInt64):
			return page, ledger.EndOf(max(upto, next.Dated-1)), nil
		case entry == next && i-first == limit, date == next && j-corrected == limit:
			return page, book.Through(through, next), nil
		}
		through = next
		if entry == next {
			switch e := &a.entries[i]; {
			case e.Part != e.Seq:
				whole = false
			case whole:
				page = a.entries[first : i+1 : i+1]
			default:
				page = append(page, *e)
			}
			i++
		}
		if date == next {
			whole = false
			page = append(page, a.entries[date.Seq-a.entries[0].Seq])
			j++
		}
	}
}

// Since lists entries by number.
func (l *memory) Since(key string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	a := l.accounts[key]
	if a == nil || len(a.entries) == 0 {
		return nil, nil
	}
	first := a.after(ledger.Place{Dated: after.At, Seq: math.MinInt64})
	first = max(first, int(min(after.Seq+1-a.entries[0].Seq, int64(len(a.entries)))))
	return a.entries[first:][:min(limit, len(a.entries)-first)], nil
}

// Open lists open holds.
func (l *memory) Open(
	key string, after ledger.Hold, upto int64, limit int,
) (open []ledger.Hold, next int64, err error) {
	a := l.accounts[key]
	if a == nil {
		return nil, 0, nil
	}
	if after.Expires == 0 {
		after.Expires = math.MinInt64
	}
	a.holds.Ascend(after, func(h ledger.Hold) bool {
		if book.Order(h, after) == 0 {
			return true
		}
		if h.Expires > upto || len(open) == limit {
			next = h.Expires
			return false
		}
		h.Account = key
		open = append(open, h)
		return true
	})
	return open, next, nil
}
