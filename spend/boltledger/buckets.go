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

// names holds the tables of the ledger. The first holds the names, working sets, entries and holds
// of accounts, under the keys that codec.go describes. The second holds requests by ID, and the
// third the rules of budgets.
type names struct{ accounts, requests, rules *kv.Table }

func namesOf(db *kv.DB, name string) *names {
	return &names{db.Table(name + ".accounts"), db.Table(name + ".requests"), db.Table(name + ".rules")}
}

func (n *names) tables() []*kv.Table { return []*kv.Table{n.accounts, n.requests, n.rules} }

// all lists the names of the bbolt buckets.
func (n *names) all() (names [][]byte) {
	for _, t := range n.tables() {
		names = append(names, t.Name(), t.MetaName())
	}
	return names
}

// there reports whether tx has the buckets of the ledger. It must have all of them or none: a new
// one in the place of one that was lost would be empty.
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
	for _, t := range n.tables() {
		if _, err := t.Create(tx); err != nil {
			return boltfile.Failed(fmt.Sprintf("creating the ledger's buckets: %v", err), err)
		}
	}
	return nil
}

// buckets holds the ledger's tables in one transaction. It is the [book.Reader] of a batch.
type buckets struct {
	accounts, requests, rules *txTable
	dropped                   [][]byte // keys of accounts that jobs have dropped
	numbers                   map[string]int64
	keys                      map[int64]string
	last                      int64 // the largest number of an account; 0 until one is new
}

func (n *names) in(tx *kv.Tx) *buckets {
	return &buckets{
		accounts: &txTable{tx, n.accounts}, requests: &txTable{tx, n.requests}, rules: &txTable{tx, n.rules},
		numbers: make(map[string]int64), keys: make(map[int64]string),
	}
}

// number returns the number of the account with that key, or 0, which no account has.
func (b *buckets) number(key string) (int64, error) {
	if n := b.numbers[key]; n != 0 {
		return n, nil
	}
	v, err := b.accounts.get(nameKey(key))
	if v == nil || err != nil {
		return 0, err
	}
	n, err := decodeNumber(v)
	if err == nil {
		b.numbers[key] = n
	}
	return n, err
}

// key returns the key of the account with that number.
func (b *buckets) key(n int64) (string, error) {
	if key, known := b.keys[n]; known {
		return key, nil
	}
	v, err := b.accounts.get(prefix(n, ofKey))
	if err != nil {
		return "", err
	}
	key, err := decodeName(v)
	if err == nil {
		b.keys[n] = key
	}
	return key, err
}

// name gives an account its key.
func (b *buckets) name(n int64, key string) {
	b.numbers[key], b.keys[n] = n, key
	b.accounts.put(nameKey(key), encodeNumber(n))
	b.accounts.put(prefix(n, ofKey), encodeName(key))
}

// assign returns the number of the account with that key, which may be new.
func (b *buckets) assign(key string) (int64, error) {
	n, err := b.number(key)
	if n != 0 || err != nil {
		return n, err
	}
	if b.last == 0 {
		c, err := b.accounts.descend([]byte{ofNumber}, []byte{ofNumber + 1})
		if err != nil {
			return 0, err
		}
		k, _, err := c.next()
		if err != nil {
			return 0, err
		}
		if k != nil {
			b.last = numberAt(k[1:])
		}
	}
	b.last++
	b.name(b.last, key)
	return b.last, nil
}

// decide decides jobs, and puts their changes into the transaction. own are the errors of jobs that
// fail alone, each a jobError.
func (b *buckets) decide(jobs []*ledger.Job, now int64) (own []error, err error) {
	for len(own) < len(jobs) && err == nil {
		batch := book.NewBatch(b, now)
		for len(own) < len(jobs) && !batch.Moves() {
			var failed error
			if err := batch.Run(b.dropping(jobs[len(own)])); err != nil {
				failed = jobError{err}
			}
			own = append(own, failed)
		}
		err = b.apply(batch.Changes())
		b.dropped = nil
	}
	return own, err
}

// view runs a job and drops its changes. The error of the job itself is a jobError.
func (b *buckets) view(job *ledger.Job, now int64) error {
	if _, err := job.Run(book.NewBatch(b, now)); err != nil {
		return jobError{err}
	}
	return nil
}

// dropping returns a job that also looks for the keys that it drops. If one of the entries is
// damaged, the job fails.
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

// drop appends the keys of an account's entries up to a time, and those of their dates. It begins
// where the last drop has ended: the removed keys before may still be in the file, and would be
// passed again by each drop.
func (b *buckets) drop(keys [][]byte, d ledger.Drop) ([][]byte, error) {
	n, err := b.number(d.Account)
	if err != nil {
		return nil, err
	}
	start := prefix(n, ofEntries)
	from := start
	a, err := b.Account(d.Account)
	if err != nil {
		return nil, err
	}
	if a.Pruned != 0 {
		from = entryKey(n, ofEntries, a.Pruned+1, 0)
	}
	c, err := b.accounts.ascend(start, from)
	for err == nil {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil || numberAt(k[len(start):]) > d.At {
			break
		}
		var e ledger.Entry
		if e, err = decodeEntry(d.Account, k, v); err != nil {
			break
		}
		if keys = append(keys, k); e.Part != e.Seq {
			keys = append(keys, entryKey(n, ofDates, e.Dated, e.Seq))
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
	numberOf := func(account string) (n int64) {
		if err == nil {
			n, err = b.assign(account)
		}
		return n
	}
	for _, key := range b.dropped {
		remove(key)
	}
	for i := range c.Accounts {
		a := &c.Accounts[i]
		b.accounts.put(prefix(numberOf(a.Key), ofState), encodeAccount(a))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		n := numberOf(e.Account)
		b.accounts.put(entryKey(n, ofEntries, e.At, e.Seq), encodeEntry(e))
		if e.Part != e.Seq {
			at := newEncoder()
			at.Int(e.At)
			b.accounts.put(entryKey(n, ofDates, e.Dated, e.Seq), at)
		}
	}
	for _, list := range [...][]ledger.Request{c.Requests, c.Spends, c.Replaced} {
		for i := range list {
			var accounts []int64
			for _, key := range list[i].Accounts {
				accounts = append(accounts, numberOf(key))
			}
			b.requests.put([]byte(list[i].ID), encodeRequest(&list[i], accounts))
		}
	}
	for _, h := range c.Opened {
		b.accounts.put(holdKey(numberOf(h.Account), h), newEncoder())
	}
	for _, h := range c.Closed {
		remove(holdKey(numberOf(h.Account), h))
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		b.rules.put(rulesKey(r.Budget, r.Seq), encodeRules(r))
	}
	for _, m := range c.Moved {
		n := numberOf(m.From)
		remove(nameKey(m.From))
		delete(b.numbers, m.From)
		b.name(n, m.To)
	}
	return err
}

func holdKey(account int64, h ledger.Hold) []byte {
	return append(number(prefix(account, ofHolds), h.Expires), h.SpendID...)
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
