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
	c := b.accounts.Descend(start, end)
	for len(list) < limit {
		k, v := c.Next()
		if k == nil {
			break
		}
		e, err := b.decodeEntry(k, v)
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

// accountsFrom lists the names of accounts in order.
type accountsFrom struct {
	file    *bbolt.Cursor
	changed []string // groups with changes that the file may not have
}

// from returns the accounts whose names are not less than a name.
func (b *buckets) from(name []byte) *accountsFrom {
	return &accountsFrom{b.accounts.Stored(), b.accounts.Groups(name)}
}

// next returns the first account whose name is not less than from; ok is false if there is none. It
// may be an account whose values have all been removed.
func (a *accountsFrom) next(from []byte) (account string, ok bool) {
	account, ok = next(a.file, from)
	for len(a.changed) > 0 && a.changed[0] < string(from) {
		a.changed = a.changed[1:]
	}
	if len(a.changed) > 0 {
		if changed, _, _ := strings.Cut(a.changed[0], "\x00"); !ok || changed < account {
			return changed, true
		}
	}
	return account, ok
}

// list lists accounts whose names begin with start and are greater than after. The State of a
// damaged account is empty.
func (b *buckets) list(start, after string, limit int) (list []ledger.Account, err error) {
	from := []byte(start)
	if after >= start && after != "" {
		from = prefix(after, ofNone)
	}
	accounts := b.from(from)
	for len(list) < limit {
		account, ok := accounts.next(from)
		if !ok || !strings.HasPrefix(account, start) {
			break
		}
		from = prefix(account, ofNone)
		key := prefix(account, ofState)
		v := b.accounts.Get(key, len(key))
		if v == nil {
			continue
		}
		a, err := b.decodeAccount(account, key, v)
		switch {
		case err != nil:
			list = append(list, ledger.Account{Key: account})
		case a.State != nil:
			list = append(list, a)
		}
	}
	return list, nil
}

// held returns the IDs of all requests with an open hold.
func (b *buckets) held() map[string]bool {
	ids := make(map[string]bool)
	accounts := b.from(nil)
	for account, ok := accounts.next(nil); ok; account, ok = accounts.next(prefix(account, ofNone)) {
		start := prefix(account, ofHolds)
		c := b.accounts.Ascend(start, start)
		for k, _ := c.Next(); k != nil; k, _ = c.Next() {
			ids[string(k[len(start)+8:])] = true
		}
	}
	return ids
}

// prunePage is the number of requests that one transaction of PruneRequests looks at.
const prunePage = 4096

// old lists the IDs of requests to forget, beginning after the ID after. The next call goes on
// after next; next is nil at the end. It looks at the file alone, and passes over damaged requests,
// whose age nobody knows.
func (b *buckets) old(
	prefix string, before int64, after []byte, held map[string]bool,
) (ids [][]byte, next []byte, err error) {
	c := b.requests.Stored()
	k, v := c.Seek(after)
	if after != nil && bytes.Equal(k, after) {
		k, v = c.Next()
	}
	for n := 0; k != nil; k, v = c.Next() {
		r, err := b.decodeRequest(k, v)
		if err == nil && r.At < before && !held[r.ID] && bytes.HasPrefix([]byte(r.Accounts[0]), []byte(prefix)) {
			ids = append(ids, bytes.Clone(k))
		}
		if n++; n == prunePage {
			return ids, bytes.Clone(k), nil
		}
	}
	return ids, nil, nil
}
