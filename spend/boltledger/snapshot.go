package boltledger

import (
	"cmp"
	"math"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// Locked reports that nobody else changes an account.
func (b *buckets) Locked(string) bool { return true }

// Account returns a working set. A missing account has no State.
func (b *buckets) Account(key string) (ledger.Account, error) {
	n, err := b.number(key)
	if n == 0 || err != nil {
		return ledger.Account{Key: key}, err
	}
	v, err := b.accounts.get(prefix(n, ofState))
	if v == nil || err != nil {
		return ledger.Account{Key: key}, err
	}
	return decodeAccount(key, v)
}

// Rules returns the newest rules of a budget.
func (b *buckets) Rules(budget string) (r ledger.Rules, err error) {
	list, err := b.revisions(budget, math.MaxInt64, 1)
	if len(list) > 0 {
		r = list[0]
	}
	return r, err
}

// Request returns the answer to an ID, or nil.
func (b *buckets) Request(id string) (*ledger.Request, error) {
	v, err := b.requests.get([]byte(id))
	if v == nil || err != nil {
		return nil, err
	}
	return b.request([]byte(id), v)
}

// request reads a request, with the keys that its accounts have.
func (b *buckets) request(key, value []byte) (*ledger.Request, error) {
	r, accounts, err := decodeRequest(key, value)
	for _, n := range accounts {
		if err != nil {
			return nil, err
		}
		var name string
		name, err = b.key(n)
		r.Accounts = append(r.Accounts, name)
	}
	return r, err
}

// placeCursor is a cursor over an account's entries by time, or over its corrections by date.
type placeCursor struct {
	c      *prefixCursor
	start  []byte
	k, v   []byte       // k is nil at the end
	next   ledger.Place // of k; the end of the latest date at the end
	passed int          // number of keys before k
	err    error        // that ended the walk
}

// walk returns a cursor at the first key after a place.
func (b *buckets) walk(account int64, letter byte, after ledger.Place) *placeCursor {
	start := prefix(account, letter)
	c, err := b.accounts.ascend(start, entryKey(account, letter, after.Dated, after.Seq))
	w := &placeCursor{c: c, start: start, err: err}
	if w.step(); w.next == after {
		w.step()
	}
	w.passed = 0
	return w
}

func (w *placeCursor) step() {
	w.passed++
	if w.k = nil; w.err == nil {
		w.k, w.v, w.err = w.c.next()
	}
	if w.next = ledger.EndOf(math.MaxInt64); w.k != nil {
		w.next = ledger.Place{Dated: numberAt(w.k[len(w.start):]), Seq: numberAt(w.k[len(w.start)+8:])}
	}
}

// Entries walks the entries and the corrections of their dates side by side, at most limit of each.
func (b *buckets) Entries(
	account string, after ledger.Place, upto int64, limit int,
) (page []ledger.Entry, through ledger.Place, err error) {
	n, err := b.number(account)
	if err != nil {
		return nil, through, err
	}
	entries, dates := b.walk(n, ofEntries, after), b.walk(n, ofDates, after)
	for {
		next := entries.next
		if dates.next.Compare(next) < 0 {
			next = dates.next
		}
		if err := cmp.Or(entries.err, dates.err); err != nil {
			return nil, next, err
		}
		switch {
		case next.Dated > upto || next == ledger.EndOf(math.MaxInt64):
			return page, ledger.EndOf(max(upto, next.Dated-1)), nil
		case entries.next == next && entries.passed == limit, dates.next == next && dates.passed == limit:
			return page, book.Through(through, next), nil
		}
		through = next
		if entries.next == next {
			e, err := decodeEntry(account, entries.k, entries.v)
			if err != nil {
				return nil, next, err
			}
			if e.Part == e.Seq {
				page = append(page, e)
			}
			entries.step()
		}
		if dates.next == next {
			e, err := b.correction(account, n, next, dates.v)
			if err != nil {
				return nil, next, err
			}
			page = append(page, e)
			dates.step()
		}
	}
}

// correction reads the correction at a place, by the value under its date.
func (b *buckets) correction(account string, n int64, place ledger.Place, value []byte) (ledger.Entry, error) {
	at, err := decodeDate(value)
	if err != nil {
		return ledger.Entry{}, err
	}
	key := entryKey(n, ofEntries, at, place.Seq)
	v, err := b.accounts.get(key)
	if err != nil {
		return ledger.Entry{}, err
	}
	return decodeEntry(account, key, v)
}

// Since lists entries by number.
func (b *buckets) Since(account string, after ledger.Position, limit int) (list []ledger.Entry, err error) {
	n, err := b.number(account)
	if err != nil {
		return nil, err
	}
	c, err := b.accounts.ascend(prefix(n, ofEntries), entryKey(n, ofEntries, after.At, after.Seq))
	for err == nil && len(list) < limit {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil {
			break
		}
		var e ledger.Entry
		if e, err = decodeEntry(account, k, v); err == nil && e.Seq > after.Seq {
			list = append(list, e)
		}
	}
	return list, err
}

// Open lists open holds.
func (b *buckets) Open(
	account string, after ledger.Hold, upto int64, limit int,
) (open []ledger.Hold, next int64, err error) {
	n, err := b.number(account)
	if err != nil {
		return nil, 0, err
	}
	start := prefix(n, ofHolds)
	from := start
	if after.Expires != 0 {
		from = append(holdKey(n, after), 0)
	}
	c, err := b.accounts.ascend(start, from)
	for err == nil {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil {
			break
		}
		h := ledger.Hold{Account: account, Expires: numberAt(k[len(start):]), SpendID: string(k[len(start)+8:])}
		if h.Expires > upto || len(open) == limit {
			return open, h.Expires, nil
		}
		open = append(open, h)
		err = checkHold(v)
	}
	return open, 0, err
}
