package boltledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// reads are the calls of a ledger that change nothing. over runs a function on all decisions so
// far.
type reads struct {
	l    *Ledger
	over func(ctx context.Context, op string, fn func(*buckets) error) error
}

// View runs a job on all decisions so far. See [ledger.Ledger].
func (r reads) View(ctx context.Context, job *ledger.Job) error {
	return r.over(ctx, "view", func(b *buckets) error { return b.view(job, r.l.clock.Now()) })
}

// History lists entries, newest first. See [ledger.Ledger].
func (r reads) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) (list []ledger.Entry, err error) {
	err = r.over(ctx, "history", func(b *buckets) (err error) {
		list, err = b.history(account, before, limit)
		return err
	})
	return list, err
}

// Revisions lists the rules of a budget, newest first. See [ledger.Ledger].
func (r reads) Revisions(ctx context.Context, budget string, before int64, limit int) (list []ledger.Rules, err error) {
	err = r.over(ctx, "revisions", func(b *buckets) (err error) {
		list, err = b.revisions(budget, cmp.Or(before, math.MaxInt64), limit)
		return err
	})
	return list, err
}

// Accounts lists accounts. See [ledger.Ledger].
func (r reads) Accounts(
	ctx context.Context, prefix, after string, due int64, limit int,
) (keys []string, next string, err error) {
	err = r.over(ctx, "accounts", func(b *buckets) (err error) {
		keys, next, err = b.list(prefix, after, due, limit)
		return err
	})
	return keys, next, err
}

// history lists entries in descending order of their numbers, beginning below before.
func (b *buckets) history(account string, before ledger.Position, limit int) (list []ledger.Entry, err error) {
	n, err := b.number(account)
	if err != nil {
		return nil, err
	}
	start := prefix(n, ofEntries)
	end := prefix(n, ofEntries+1)
	if before.Seq != 0 {
		end = entryKey(n, ofEntries, before.At, before.Seq)
	}
	c, err := b.accounts.descend(start, end)
	for err == nil && len(list) < limit {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil {
			break
		}
		var e ledger.Entry
		if e, err = decodeEntry(account, k, v); err == nil {
			list = append(list, e)
		}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// revisions lists the rules of a budget in descending order of their numbers, beginning below
// before.
func (b *buckets) revisions(budget string, before int64, limit int) (list []ledger.Rules, err error) {
	c, err := b.rules.descend(rulesKey(budget, 0)[:len(budget)+1], rulesKey(budget, before))
	for err == nil && len(list) < limit {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil {
			break
		}
		var r ledger.Rules
		if r, err = decodeRules(budget, k, v); err == nil {
			list = append(list, r)
		}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// listPage is the number of accounts at which a list of those that are due looks in one
// transaction.
const listPage = 1024

// list lists accounts whose names begin with start and are greater than after. A damaged one may be
// due, and one without a working set is damaged.
func (b *buckets) list(start, after string, due int64, limit int) (list []string, next string, err error) {
	c, err := b.accounts.ascend(nameKey(start), nameKey(max(start, after)))
	for n := 0; err == nil && len(list) < limit && (due == 0 || n < listPage); n++ {
		var k []byte
		if k, _, err = c.next(); k == nil || err != nil {
			return list, "", err
		}
		if next = string(k[1:]); next == after {
			continue
		}
		a, err := b.Account(next)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return nil, "", err
		}
		if due == 0 || err != nil || a.Due != 0 && a.Due <= due {
			list = append(list, next)
		}
	}
	return list, next, err
}

// prunePage is the number of keys that one transaction of PruneRequests looks at, and pruneBatch
// that of the requests that one commit forgets at most.
const (
	prunePage  = 4096
	pruneBatch = 512
)

// held adds the IDs of the requests with an open hold, from a key on. The next call goes on from
// next, which is nil at the end.
func (b *buckets) held(ids map[string]bool, from []byte) (next []byte, err error) {
	if len(from) == 0 {
		from = []byte{ofNumber}
	}
	c, err := b.accounts.ascend(nil, from)
	for n := 0; err == nil && n < prunePage; n++ {
		var k []byte
		if k, _, err = c.next(); k == nil || err != nil {
			return nil, err
		}
		account := numberAt(k[1:])
		switch start := prefix(account, ofHolds); {
		case bytes.HasPrefix(k, start):
			ids[string(k[len(start)+8:])], from = true, append(k, 0)
			continue
		case bytes.Compare(k, start) < 0:
			from = start
		default:
			from = prefix(account, ofNone)
		}
		c, err = b.accounts.ascend(nil, from)
	}
	return from, err
}

// old lists the IDs of requests to forget, beginning after the ID after. The next call goes on
// after next; next is nil at the end. It passes over damaged requests, whose age nobody knows.
func (b *buckets) old(
	prefix string, before int64, after []byte, held map[string]bool,
) (ids [][]byte, next []byte, err error) {
	c, err := b.requests.ascend(nil, after)
	for n := 0; err == nil; {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil {
			break
		}
		if after != nil && bytes.Equal(k, after) {
			continue
		}
		r, derr := b.request(k, v)
		if derr != nil && !errors.Is(derr, store.ErrCorrupt) {
			return nil, nil, derr
		}
		if derr == nil && r.At < before && !held[r.ID] && strings.HasPrefix(r.Accounts[0], prefix) {
			ids = append(ids, k)
		}
		if n++; n == prunePage || len(ids) == pruneBatch {
			return ids, k, nil
		}
	}
	return ids, nil, err
}

// forget removes requests by ID, if they are older than before. Since ids were listed, another
// PruneRequests may have removed one of them, and a new request may have its ID.
func (b *buckets) forget(t *task) (removed int64, err error) {
	defer t.pace.Worked(time.Now())
	for _, id := range t.ids {
		value, err := b.requests.get(id)
		if err != nil {
			return 0, err
		}
		if value == nil {
			continue
		}
		if r, _, err := decodeRequest(id, value); err == nil && r.At < t.before {
			if err := b.requests.tx.Delete(b.requests.t, string(id)); err != nil {
				return 0, err
			}
			removed++
		}
	}
	return removed, nil
}
