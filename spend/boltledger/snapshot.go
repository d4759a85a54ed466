package boltledger

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// Locked reports that nobody else changes an account.
func (b *buckets) Locked(string) bool { return true }

// Account returns a working set. A missing account has no State.
func (b *buckets) Account(key string) (ledger.Account, error) {
	v, err := b.accounts.get(prefix(key, ofState))
	if v == nil || err != nil {
		return ledger.Account{Key: key}, err
	}
	return decodeAccount(key, v)
}

// Request returns the answer to an ID, or nil.
func (b *buckets) Request(id string) (*ledger.Request, error) {
	v, err := b.requests.get([]byte(id))
	if v == nil || err != nil {
		return nil, err
	}
	return decodeRequest([]byte(id), v)
}

// timeCursor is a cursor over an account's entries, or over its corrections by date, in order of time.
type timeCursor struct {
	c     *prefixCursor
	start []byte
	upto  int64
	k, v  []byte // k is nil at the end
	later int64  // time of the first key after upto, or the latest possible time; known at the end
	err   error  // that ended the walk
}

// walk returns a cursor that begins at the first key with a greater time than after.
func (b *buckets) walk(account string, letter byte, after, upto int64) *timeCursor {
	start := prefix(account, letter)
	c, err := b.accounts.ascend(start, number(bytes.Clone(start), after))
	w := &timeCursor{c: c, start: start, upto: upto, err: err}
	for w.next(); w.k != nil && numberAt(w.k[len(start):]) <= after; {
		w.next()
	}
	return w
}

func (w *timeCursor) next() {
	if w.k = nil; w.err == nil {
		w.k, w.v, w.err = w.c.next()
	}
	if w.k == nil {
		w.later = math.MaxInt64
	} else if at := numberAt(w.k[len(w.start):]); at > w.upto {
		w.k, w.later = nil, at
	}
}

// time returns the time in the key, or the latest possible time at the end.
func (w *timeCursor) time() int64 {
	if w.k == nil {
		return math.MaxInt64
	}
	return numberAt(w.k[len(w.start):])
}

// Entries walks the entries and the corrections of their dates side by side.
func (b *buckets) Entries(
	account string, after, upto int64, limit int,
) (page []ledger.Entry, through int64, err error) {
	entries, dates := b.walk(account, ofEntries, after, upto), b.walk(account, ofDates, after, upto)
	for entries.k != nil || dates.k != nil {
		first, date := len(page), min(entries.time(), dates.time())
		if len(page) >= limit {
			return page, date - 1, nil
		}
		for ; entries.k != nil && entries.time() == date; entries.next() {
			e, err := decodeEntry(entries.k, entries.v)
			if err != nil {
				return nil, 0, err
			}
			if e.Part == e.Seq {
				page = append(page, e)
			}
		}
		for ; dates.k != nil && dates.time() == date; dates.next() {
			at, err := decodeDate(dates.v)
			if err != nil {
				return nil, 0, err
			}
			key := entryKey(account, ofEntries, at, numberAt(dates.k[len(dates.start)+8:]))
			v, err := b.accounts.get(key)
			if err != nil {
				return nil, 0, err
			}
			e, err := decodeEntry(key, v)
			if err != nil {
				return nil, 0, err
			}
			page = append(page, e)
		}
		slices.SortFunc(page[first:], func(x, y ledger.Entry) int { return cmp.Compare(x.Seq, y.Seq) })
	}
	if err := cmp.Or(entries.err, dates.err); err != nil {
		return nil, 0, err
	}
	return page, max(upto, min(entries.later, dates.later)-1), nil
}

// Since lists entries by number.
func (b *buckets) Since(account string, after ledger.Position, limit int) (list []ledger.Entry, err error) {
	start := prefix(account, ofEntries)
	c, err := b.accounts.ascend(start, entryKey(account, ofEntries, after.At, after.Seq))
	if err != nil {
		return nil, err
	}
	for {
		k, v, err := c.next()
		if k == nil || err != nil {
			return list, err
		}
		e, err := decodeEntry(k, v)
		if n := len(list); err != nil || n >= limit && e.At != list[n-1].At {
			return list, err
		}
		if e.Seq > after.Seq {
			list = append(list, e)
		}
	}
}

// Open lists open holds.
func (b *buckets) Open(account string, upto int64, limit int) (open []ledger.Hold, next int64, err error) {
	start := prefix(account, ofHolds)
	c, err := b.accounts.ascend(start, start)
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
