package boltledger

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// names holds the tables of the ledger. The first holds the working sets, entries and holds of
// accounts, under the keys that codec.go describes. The second holds requests by ID.
type names struct{ accounts, requests *kv.Table }

func namesOf(db *kv.DB, name string) *names {
	return &names{db.Table(name + ".accounts"), db.Table(name + ".requests")}
}

// all lists the names of the bbolt buckets.
func (n *names) all() [][]byte {
	return [][]byte{n.accounts.Name(), n.accounts.MetaName(), n.requests.Name(), n.requests.MetaName()}
}

// there reports whether tx has the buckets of the ledger. It must have all of them or none: a new one
// in the place of one that was lost would be empty.
func (n *names) there(tx *bbolt.Tx) (bool, error) {
	found := 0
	for _, name := range n.all() {
		if tx.Bucket(name) != nil {
			found++
		}
	}
	if found != 0 && found != len(n.all()) {
		return false, boltfile.Damagef("a bucket of the ledger is missing")
	}
	return found > 0, nil
}

func (n *names) create(tx *bbolt.Tx) error {
	if there, err := n.there(tx); there || err != nil { // another ledger may have created them by now
		return err
	}
	for _, t := range [...]*kv.Table{n.accounts, n.requests} {
		if _, err := t.Create(tx); err != nil {
			return boltfile.Failed(fmt.Sprintf("creating the ledger's buckets: %v", err), err)
		}
	}
	return nil
}

// buckets holds the ledger's tables in one transaction. It is the [book.Reader] of a batch.
type buckets struct {
	accounts, requests *txTable
	dropped            [][]byte // keys of accounts that jobs have dropped
}

func (n *names) in(tx *kv.Tx) *buckets {
	return &buckets{accounts: &txTable{tx, n.accounts}, requests: &txTable{tx, n.requests}}
}

// decide decides jobs, and puts their changes into the transaction. own are the errors of jobs that
// fail alone, each a jobError.
func (b *buckets) decide(jobs []*ledger.Job, now int64) (own []error, err error) {
	own = make([]error, len(jobs))
	batch := book.NewBatch(b, now)
	for i, job := range jobs {
		if err := batch.Run(b.dropping(job)); err != nil {
			own[i] = jobError{err}
		}
	}
	return own, b.apply(batch.Changes())
}

// view runs a job and drops its changes. The error of the job itself is a jobError.
func (b *buckets) view(job *ledger.Job, now int64) error {
	if _, err := job.Run(book.NewBatch(b, now)); err != nil {
		return jobError{err}
	}
	return nil
}

// dropping returns a job that also looks for the keys that it drops. If one of the entries is damaged,
// the job fails.
func (b *buckets) dropping(job *ledger.Job) *ledger.Job {
	return &ledger.Job{Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(snap)
		if c == nil || err != nil {
			return c, err
		}
		var dropped [][]byte
		for _, d := range c.Drop {
			if dropped, err = b.drop(dropped, d); err != nil {
				return nil, err
			}
		}
		b.dropped = append(b.dropped, dropped...)
		return c, nil
	}}
}

// drop appends the keys of an account's entries up to a time, and those of their dates.
func (b *buckets) drop(keys [][]byte, d ledger.Drop) ([][]byte, error) {
	start := prefix(d.Account, ofEntries)
	c, err := b.accounts.ascend(start, start)
	for err == nil {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil || numberAt(k[len(start):]) > d.At {
			break
		}
		var e ledger.Entry
		if e, err = decodeEntry(k, v); err != nil {
			break
		}
		if keys = append(keys, k); e.Part != e.Seq {
			keys = append(keys, entryKey(e.Account, ofDates, e.Dated, e.Seq))
		}
	}
	return keys, err
}

// apply puts changes into the transaction.
func (b *buckets) apply(c *ledger.Changes) (err error) {
	remove := func(key []byte) {
		if err == nil {
			err = b.accounts.tx.Delete(b.accounts.t, string(key))
		}
	}
	for _, key := range b.dropped {
		remove(key)
	}
	for i := range c.Accounts {
		a := &c.Accounts[i]
		b.accounts.put(prefix(a.Key, ofState), encodeAccount(a))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		b.accounts.put(entryKey(e.Account, ofEntries, e.At, e.Seq), encodeEntry(e))
		if e.Part != e.Seq {
			at := newEncoder()
			at.Int(e.At)
			b.accounts.put(entryKey(e.Account, ofDates, e.Dated, e.Seq), at)
		}
	}
	for _, list := range [...][]ledger.Request{c.Requests, c.Spends, c.Replaced} {
		for i := range list {
			b.requests.put([]byte(list[i].ID), encodeRequest(&list[i]))
		}
	}
	for _, h := range c.Opened {
		b.accounts.put(holdKey(h), newEncoder())
	}
	for _, h := range c.Closed {
		remove(holdKey(h))
	}
	return err
}

func holdKey(h ledger.Hold) []byte {
	return append(number(prefix(h.Account, ofHolds), h.Expires), h.SpendID...)
}

// txTable is a table in a transaction. A damaged value is empty, and no value is.
type txTable struct {
	tx *kv.Tx
	t  *kv.Table
}

var damaged = []byte{}

// get returns the value of key, or nil.
func (t *txTable) get(key []byte) ([]byte, error) {
	v, err := t.tx.Get(t.t, string(key))
	if errors.Is(err, kv.ErrDamaged) {
		return damaged, nil
	}
	return v, err
}

func (t *txTable) put(key []byte, value *book.Encoder) { t.tx.Put(t.t, string(key), value.B) }

// prefixCursor walks the keys of a table that begin with some bytes.
type prefixCursor struct {
	c      *kv.Cursor
	prefix []byte
}

// ascend returns a cursor over the keys that are not less than from.
func (t *txTable) ascend(prefix, from []byte) (*prefixCursor, error) {
	c, err := t.tx.Ascend(t.t, string(from))
	return &prefixCursor{c, prefix}, err
}

// descend returns a cursor over the keys that are less than before.
func (t *txTable) descend(prefix, before []byte) (*prefixCursor, error) {
	c, err := t.tx.Descend(t.t, string(before))
	return &prefixCursor{c, prefix}, err
}

// next returns the next key and its value; the key is nil at the end.
func (c *prefixCursor) next() (key, value []byte, err error) {
	k, v, ok, err := c.c.Next()
	if key = []byte(k); err != nil || !ok || !bytes.HasPrefix(key, c.prefix) {
		return nil, nil, err
	}
	if v == nil {
		v = damaged
	}
	return key, v, nil
}
