package memledger

import (
	"cmp"
	"math"
	"slices"

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

// Request returns the answer to an ID, or nil.
func (l *memory) Request(id string) (*ledger.Request, error) { return l.requests[id], nil }

// Entries lists entries by date.
func (l *memory) Entries(key string, after, upto int64, limit int) (page []ledger.Entry, through int64, err error) {
	a := l.accounts[key]
	if a == nil {
		return nil, upto, nil
	}
	i, j := a.after(after), a.corrected(after)
	first, whole := i, true // the page is a part of the entries, which is not copied
	for last := after; ; {
		date := int64(math.MaxInt64)
		if i < len(a.entries) {
			date = a.entries[i].At
		}
		if j < len(a.corrections) {
			date = min(date, a.corrections[j].date)
		}
		switch {
		case date > upto || i == len(a.entries) && j == len(a.corrections):
			return page, max(upto, date-1), nil
		case len(page) >= limit:
			return page, last, nil
		}
		start := len(page)
		last = date
		for ; i < len(a.entries) && a.entries[i].At == date; i++ {
			switch {
			case a.entries[i].Part != a.entries[i].Seq:
				whole = false
			case whole:
				page = a.entries[first : i+1 : i+1]
			default:
				page = append(page, a.entries[i])
			}
		}
		if j == len(a.corrections) || a.corrections[j].date > date {
			continue
		}
		whole = false
		for ; j < len(a.corrections) && a.corrections[j].date == date; j++ {
			page = append(page, a.entries[a.corrections[j].seq-a.entries[0].Seq])
		}
		slices.SortFunc(page[start:], func(x, y ledger.Entry) int { return cmp.Compare(x.Seq, y.Seq) })
	}
}

// Since lists entries by number.
func (l *memory) Since(key string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	a := l.accounts[key]
	if a == nil {
		return nil, nil
	}
	first := a.after(after.At - 1)
	if after.At == math.MinInt64 {
		first = 0
	}
	for first < len(a.entries) && a.entries[first].Seq <= after.Seq {
		first++
	}
	if limit >= len(a.entries)-first {
		return a.entries[first:], nil
	}
	return a.entries[first:a.after(a.entries[first+limit-1].At)], nil
}

// Open lists open holds.
func (l *memory) Open(key string, upto int64, limit int) (open []ledger.Hold, next int64, err error) {
	a := l.accounts[key]
	if a == nil {
		return nil, 0, nil
	}
	for _, h := range a.holds {
		if h.Expires > upto || len(open) == limit {
			return open, h.Expires, nil
		}
		open = append(open, h)
	}
	return open, 0, nil
}
