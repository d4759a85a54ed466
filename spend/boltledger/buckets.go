package boltledger

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// names are those of the ledger's buckets in the file: what belongs to accounts, see ofDates and its like, and requests by ID.
type names struct{ accounts, requests []byte }

func namesOf(name string) names {
	return names{[]byte(name + ".accounts"), []byte(name + ".requests")}
}

func (n names) all() [][]byte { return [][]byte{n.accounts, n.requests} }

func (n names) there(tx *bbolt.Tx) bool {
	return !slices.ContainsFunc(n.all(), func(name []byte) bool { return tx.Bucket(name) == nil })
}

func (n names) create(tx *bbolt.Tx) error {
	for _, name := range n.all() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return store.Wrap(backend, "new", fmt.Errorf("%w: creating the ledger's buckets: %w", store.ErrUnavailable, err))
		}
	}
	return nil
}

// buckets are the ledger's in one transaction.
type buckets struct{ accounts, requests *bbolt.Bucket }

func (n names) open(tx *bbolt.Tx) (*buckets, error) {
	if !n.there(tx) {
		return nil, store.Wrap(backend, "open", fmt.Errorf("%w: a bucket of the ledger is missing", store.ErrCorrupt))
	}
	return &buckets{tx.Bucket(n.accounts), tx.Bucket(n.requests)}, nil
}

// run decides a job and stores its changes.
func (b *buckets) run(job *ledger.Job, now int64) (wrote bool, err error) {
	c, err := job.Run(b.snapshot(job, now))
	if err != nil {
		return false, jobError{err}
	}
	if c == nil {
		return false, nil
	}
	return true, b.apply(c)
}

// apply stores changes. An error fails the transaction.
func (b *buckets) apply(c *ledger.Changes) error {
	var failed error
	put := func(bucket *bbolt.Bucket, key []byte, value *encoder) {
		if failed == nil {
			failed = bucket.Put(key, value.seal(key))
		}
	}
	for i := range c.Accounts {
		put(b.accounts, prefix(c.Accounts[i].Key, ofState), encodeAccount(&c.Accounts[i]))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		put(b.accounts, entryKey(e.Account, ofEntries, e.At, e.Seq), encodeEntry(e))
		if e.Part != e.Seq {
			at := newEncoder()
			at.int(e.At)
			put(b.accounts, entryKey(e.Account, ofDates, e.Dated, e.Seq), at)
		}
	}
	for i := range c.Requests {
		put(b.requests, []byte(c.Requests[i].ID), encodeRequest(&c.Requests[i]))
	}
	for i := range c.Spends {
		key := []byte(c.Spends[i].ID)
		r, err := decodeRequest(key, b.requests.Get(key))
		if err != nil {
			return err
		}
		r.Spend = c.Spends[i].Spend
		put(b.requests, key, encodeRequest(r))
	}
	for _, h := range c.Opened {
		put(b.accounts, holdKey(h), newEncoder())
	}
	for _, h := range c.Closed {
		if failed == nil {
			failed = b.accounts.Delete(holdKey(h))
		}
	}
	for _, d := range c.Drop {
		if failed == nil {
			failed = b.drop(d)
		}
	}
	return failed
}

func holdKey(h ledger.Hold) []byte {
	return append(number(prefix(h.Account, ofHolds), h.Expires), h.SpendID...)
}

// drop removes an account's entries up to a time.
func (b *buckets) drop(d ledger.Drop) error {
	start := prefix(d.Account, ofEntries)
	var keys [][]byte
	c := b.accounts.Cursor()
	for k, v := c.Seek(start); bytes.HasPrefix(k, start) && numberAt(k[len(start):]) <= d.At; k, v = c.Next() {
		e, err := decodeEntry(k, v)
		if err != nil {
			return err
		}
		keys = append(keys, bytes.Clone(k))
		if e.Part != e.Seq {
			keys = append(keys, entryKey(e.Account, ofDates, e.Dated, e.Seq))
		}
	}
	for _, k := range keys {
		if err := b.accounts.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func (b *buckets) history(account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	start := prefix(account, ofEntries)
	end := prefix(account, ofEntries+1)
	if before.Seq != 0 {
		end = entryKey(account, ofEntries, before.At, before.Seq)
	}
	c := b.accounts.Cursor()
	k, v := c.Seek(end)
	if k == nil {
		k, v = c.Last()
	}
	for ; k != nil && len(list) < limit; k, v = c.Prev() {
		if bytes.Compare(k, end) >= 0 {
			continue
		}
		if !bytes.HasPrefix(k, start) {
			break
		}
		e, err := decodeEntry(k, v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// next finds the first account whose name is not less than from, and the end of its name in the key that was found.
func next(c *bbolt.Cursor, from []byte) (account string, ok bool) {
	k, _ := c.Seek(from)
	end := bytes.IndexByte(k, 0)
	if end < 0 {
		return "", false
	}
	return string(k[:end]), true
}

func (b *buckets) list(start, after string, limit int) (list []ledger.Account, err error) {
	from := []byte(start)
	if after >= start && after != "" {
		from = prefix(after, ofNone)
	}
	c := b.accounts.Cursor()
	for len(list) < limit {
		account, ok := next(c, from)
		if !ok || !strings.HasPrefix(account, start) {
			break
		}
		from = prefix(account, ofNone)
		key := prefix(account, ofState)
		v := b.accounts.Get(key)
		if v == nil {
			continue
		}
		a, err := decodeAccount(account, key, v)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// held is the IDs of all that somebody still holds.
func (b *buckets) held() map[string]bool {
	ids := make(map[string]bool)
	c := b.accounts.Cursor()
	for account, ok := next(c, nil); ok; account, ok = next(c, prefix(account, ofNone)) {
		start := prefix(account, ofHolds)
		for k, _ := c.Seek(start); bytes.HasPrefix(k, start); k, _ = c.Next() {
			ids[string(k[len(start)+8:])] = true
		}
	}
	return ids
}

// prunePage is how many requests are looked at in one transaction.
const prunePage = 4096

// old lists IDs to forget, after one ID; next is where to go on, or nil.
func (b *buckets) old(prefix string, before int64, after []byte, held map[string]bool) (ids [][]byte, next []byte, err error) {
	c := b.requests.Cursor()
	k, v := c.Seek(after)
	if after != nil && bytes.Equal(k, after) {
		k, v = c.Next()
	}
	for n := 0; k != nil; k, v = c.Next() {
		r, err := decodeRequest(k, v)
		if err != nil {
			return nil, nil, err
		}
		if r.At < before && !held[r.ID] && bytes.HasPrefix([]byte(r.Accounts[0]), []byte(prefix)) {
			ids = append(ids, bytes.Clone(k))
		}
		if n++; n == prunePage {
			return ids, bytes.Clone(k), nil
		}
	}
	return ids, nil, nil
}

// snapshot is what a job sees: the transaction, with what those before it have stored.
type snapshot struct {
	*buckets
	now    int64
	locked []string
}

func (b *buckets) snapshot(job *ledger.Job, now int64) *snapshot {
	s := &snapshot{buckets: b, now: now, locked: job.Accounts}
	if job.SpendID != "" {
		// What cannot be read is told when it is asked for.
		if r, err := s.Request(job.SpendID); err == nil && r != nil {
			s.locked = append(slices.Clone(s.locked), r.Accounts...)
		}
	}
	return s
}

func (s *snapshot) Now() int64                 { return s.now }
func (s *snapshot) Locked(account string) bool { return slices.Contains(s.locked, account) }

func (s *snapshot) Account(key string) (ledger.Account, error) {
	k := prefix(key, ofState)
	v := s.accounts.Get(k)
	if v == nil {
		return ledger.Account{Key: key}, nil
	}
	return decodeAccount(key, k, v)
}

func (s *snapshot) Request(id string) (*ledger.Request, error) {
	v := s.requests.Get([]byte(id))
	if v == nil {
		return nil, nil
	}
	return decodeRequest([]byte(id), v)
}

// walk is a cursor over an account's entries, or over what corrects its dates, in order of time.
type walk struct {
	c     *bbolt.Cursor
	start []byte
	upto  int64
	k, v  []byte // nil at the end
}

// walk begins at the first key with a greater time than after.
func (s *snapshot) walk(account string, what byte, after, upto int64) *walk {
	w := &walk{c: s.accounts.Cursor(), start: prefix(account, what), upto: upto}
	w.k, w.v = w.c.Seek(number(bytes.Clone(w.start), after))
	for w.inside() && numberAt(w.k[len(w.start):]) <= after {
		w.k, w.v = w.c.Next()
	}
	if !w.inside() {
		w.k = nil
	}
	return w
}

func (w *walk) inside() bool {
	return bytes.HasPrefix(w.k, w.start) && numberAt(w.k[len(w.start):]) <= w.upto
}

func (w *walk) next() {
	if w.k, w.v = w.c.Next(); !w.inside() {
		w.k = nil
	}
}

// time is that of the key; after the end, later than any.
func (w *walk) time() int64 {
	if w.k == nil {
		return math.MaxInt64
	}
	return numberAt(w.k[len(w.start):])
}

// Entries walks the entries of the dates and what corrects these dates side by side.
func (s *snapshot) Entries(account string, after, upto int64, limit int) (page []ledger.Entry, through int64, err error) {
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
			d := open("a date", dates.k, dates.v)
			at := d.int()
			if d.err != nil {
				return nil, 0, d.err
			}
			key := entryKey(account, ofEntries, at, numberAt(dates.k[len(dates.start)+8:]))
			e, err := decodeEntry(key, s.accounts.Get(key))
			if err != nil {
				return nil, 0, err
			}
			page = append(page, e)
		}
		slices.SortFunc(page[first:], func(a, b ledger.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return page, upto, nil
}

func (s *snapshot) Since(account string, after ledger.Position) (list []ledger.Entry, err error) {
	start := prefix(account, ofEntries)
	c := s.accounts.Cursor()
	for k, v := c.Seek(entryKey(account, ofEntries, after.At, after.Seq)); bytes.HasPrefix(k, start); k, v = c.Next() {
		e, err := decodeEntry(k, v)
		if err != nil {
			return nil, err
		}
		if e.Seq > after.Seq {
			list = append(list, e)
		}
	}
	return list, nil
}

func (s *snapshot) Holds(account string, upto int64) (held []ledger.Request, next int64, err error) {
	start := prefix(account, ofHolds)
	c := s.accounts.Cursor()
	for k, _ := c.Seek(start); bytes.HasPrefix(k, start); k, _ = c.Next() {
		if expires := numberAt(k[len(start):]); expires > upto {
			return held, expires, nil
		}
		r, err := s.Request(string(k[len(start)+8:]))
		if err != nil {
			return nil, 0, err
		}
		if r == nil {
			return nil, 0, fmt.Errorf("%w: a hold belongs to no request", store.ErrCorrupt)
		}
		held = append(held, *r)
	}
	return held, 0, nil
}
