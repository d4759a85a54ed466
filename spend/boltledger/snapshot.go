package boltledger

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/spend/ledger"
)

// snapshot is a job's view of the transaction, which holds the changes of the jobs before it.
type snapshot struct {
	*buckets
	now    int64
	locked []string
}

func (b *buckets) snapshot(job *ledger.Job, now int64) *snapshot {
	s := &snapshot{buckets: b, now: now, locked: job.Accounts}
	if job.SpendID != "" {
		// If the request cannot be read, the job gets the error when it asks for the request.
		if r, err := s.Request(job.SpendID); err == nil && r != nil {
			s.locked = append(slices.Clone(s.locked), r.Accounts...)
		}
	}
	return s
}

func (s *snapshot) Now() int64                 { return s.now }
func (s *snapshot) Locked(account string) bool { return slices.Contains(s.locked, account) }

func (s *snapshot) Account(key string) (ledger.Account, error) {
	return s.stored(key)
}

func (s *snapshot) Request(id string) (*ledger.Request, error) {
	v, err := s.requests.get([]byte(id))
	if v == nil || err != nil {
		return nil, err
	}
	return decodeRequest([]byte(id), v)
}

// walk is a cursor over an account's entries, or over its corrections by date, in order of time.
type walk struct {
	c     *cursor
	start []byte
	upto  int64
	k, v  []byte // k is nil at the end
	later int64  // time of the first key after upto, or the latest possible time; known at the end
	err   error  // that ended the walk
}

// walk begins at the first key with a greater time than after.
func (s *snapshot) walk(account string, letter byte, after, upto int64) *walk {
	start := prefix(account, letter)
	c, err := s.accounts.ascend(start, number(bytes.Clone(start), after))
	w := &walk{c: c, start: start, upto: upto, err: err}
	for w.next(); w.k != nil && numberAt(w.k[len(start):]) <= after; {
		w.next()
	}
	return w
}

func (w *walk) next() {
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
func (w *walk) time() int64 {
	if w.k == nil {
		return math.MaxInt64
	}
	return numberAt(w.k[len(w.start):])
}

// Entries walks the entries and the corrections of their dates side by side.
func (s *snapshot) Entries(
	account string, after, upto int64, limit int,
) (page []ledger.Entry, through int64, err error) {
	entries, dates := s.walk(account, ofEntries, after, upto), s.walk(account, ofDates, after, upto)
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
			v, err := s.accounts.get(key)
			if err != nil {
				return nil, 0, err
			}
			e, err := decodeEntry(key, v)
			if err != nil {
				return nil, 0, err
			}
			page = append(page, e)
		}
		slices.SortFunc(page[first:], func(a, b ledger.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	if err := cmp.Or(entries.err, dates.err); err != nil {
		return nil, 0, err
	}
	return page, max(upto, min(entries.later, dates.later)-1), nil
}

func (s *snapshot) Since(account string, after ledger.Position) (list []ledger.Entry, err error) {
	start := prefix(account, ofEntries)
	c, err := s.accounts.ascend(start, entryKey(account, ofEntries, after.At, after.Seq))
	if err != nil {
		return nil, err
	}
	for {
		k, v, err := c.next()
		if k == nil || err != nil {
			return list, err
		}
		e, err := decodeEntry(k, v)
		if err != nil {
			return nil, err
		}
		if e.Seq > after.Seq {
			list = append(list, e)
		}
	}
}

func (s *snapshot) Holds(account string, upto int64, limit int) (held []ledger.Request, next int64, err error) {
	start := prefix(account, ofHolds)
	c, err := s.accounts.ascend(start, start)
	if err != nil {
		return nil, 0, err
	}
	for {
		k, v, err := c.next()
		if k == nil || err != nil {
			return held, 0, err
		}
		if expires := numberAt(k[len(start):]); expires > upto || len(held) == limit {
			return held, expires, nil
		}
		if err := checkHold(v); err != nil {
			return nil, 0, err
		}
		r, err := s.Request(string(k[len(start)+8:]))
		if err != nil {
			return nil, 0, err
		}
		if r == nil {
			return nil, 0, boltfile.Damagef("a hold belongs to no request")
		}
		held = append(held, *r)
	}
}
