package boltledger

import (
	"bytes"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/spend/ledger"
)

// history lists entries in descending order of their numbers, beginning below before.
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

// next returns the first account whose name is not less than from; ok is false if there is none.
func next(c *bbolt.Cursor, from []byte) (account string, ok bool) {
	k, _ := c.Seek(from)
	end := bytes.IndexByte(k, 0)
	if end < 0 {
		return "", false
	}
	return string(k[:end]), true
}

// list lists accounts whose names begin with start and are greater than after.
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

// held returns the IDs of all requests with an open hold.
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

// prunePage is the number of requests that one transaction of PruneRequests looks at.
const prunePage = 4096

// old lists the IDs of requests to forget, beginning after the ID after. The next call goes on
// after next; next is nil at the end.
func (b *buckets) old(
	prefix string, before int64, after []byte, held map[string]bool,
) (ids [][]byte, next []byte, err error) {
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
