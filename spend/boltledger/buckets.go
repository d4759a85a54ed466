package boltledger

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
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
			return boltfile.Unavailable(fmt.Sprintf("creating the ledger's buckets: %v", err), err)
		}
	}
	return nil
}

// buckets holds the ledger's tables in one transaction.
type buckets struct {
	accounts, requests *table
	known              []ledger.Account // that the job has read
}

func (n *names) in(tx *kv.Tx) *buckets {
	return &buckets{accounts: &table{tx, n.accounts}, requests: &table{tx, n.requests}}
}

// run decides a job and stores its changes. The error of the job itself is a jobError.
func (b *buckets) run(job *ledger.Job, now int64) error {
	b.known = b.known[:0]
	c, err := job.Run(b.snapshot(job, now))
	switch {
	case err != nil:
		return jobError{err}
	case c == nil:
		return nil
	}
	return b.apply(c)
}

// view runs a job and drops its changes. The error of the job itself is a jobError.
func (b *buckets) view(job *ledger.Job, now int64) error {
	if _, err := job.Run(b.snapshot(job, now)); err != nil {
		return jobError{err}
	}
	return nil
}

// apply puts changes into the transaction. A jobError means that damage keeps this job from being
// stored, and that nothing of it is; any other error fails the transaction.
func (b *buckets) apply(c *ledger.Changes) error {
	p := &plan{buckets: b}
	if err := p.plan(c); errors.Is(err, store.ErrCorrupt) {
		return jobError{store.Wrap(backend, "decide", err)}
	} else if err != nil {
		return err
	}
	for i := range p.writes {
		w := &p.writes[i]
		if err := w.table.put(w.key, w.value); err != nil {
			return err
		}
	}
	return nil
}

// plan lists the writes of a job.
type plan struct {
	*buckets
	writes  []planned
	dropped int // the first writes, which drop has planned
}

// planned is a value to store, or to remove if it is nil.
type planned struct {
	table *table
	key   []byte
	value []byte
}

// plan reads the values that changes replace or remove. If one of them is damaged, the job fails
// before any of its changes are stored.
func (p *plan) plan(c *ledger.Changes) error {
	for _, d := range c.Drop {
		if err := p.drop(d); err != nil {
			return err
		}
	}
	p.dropped = len(p.writes)
	for i := range c.Accounts {
		a := &c.Accounts[i]
		if _, err := p.stored(a.Key); err != nil {
			return err
		}
		p.put(prefix(a.Key, ofState), encodeAccount(a))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		p.put(entryKey(e.Account, ofEntries, e.At, e.Seq), encodeEntry(e))
		if e.Part != e.Seq {
			at := newEncoder()
			at.int(e.At)
			p.put(entryKey(e.Account, ofDates, e.Dated, e.Seq), at)
		}
	}
	for i := range c.Requests {
		p.writes = append(p.writes, p.answer(&c.Requests[i])) // the job has looked for the ID and found none
	}
	for i := range c.Spends {
		if err := p.spend(&c.Spends[i]); err != nil {
			return err
		}
	}
	for _, h := range c.Opened {
		p.put(holdKey(h), newEncoder())
	}
	for _, h := range c.Closed {
		if err := p.replace(planned{table: p.accounts, key: holdKey(h)}); err != nil {
			return err
		}
	}
	return nil
}

// put plans to store a value of an account. The job has read the account's working set, and every
// other key is new: the number of an entry is higher than those of all others, and a hold that is
// open already has an earlier expiry. To look for an earlier value would take as long as all other
// work of a plan.
func (p *plan) put(key []byte, value *encoder) {
	p.writes = append(p.writes, planned{p.accounts, key, value.b})
}

// spend plans to store the new content of a spend with its request.
func (p *plan) spend(s *ledger.Request) error {
	value, err := p.requests.get([]byte(s.ID))
	if err != nil {
		return err
	}
	r, err := decodeRequest([]byte(s.ID), value)
	if err != nil {
		return err
	}
	r.Spend = s.Spend
	return p.replace(p.answer(r))
}

// answer returns the write of a request.
func (p *plan) answer(r *ledger.Request) planned {
	return planned{p.requests, []byte(r.ID), encodeRequest(r).b}
}

// replace plans a write, unless it replaces or removes a damaged value.
func (p *plan) replace(w planned) error {
	old, err := p.old(&w)
	if err == nil && old != nil {
		err = open("a value", old).err
	}
	if err == nil {
		p.writes = append(p.writes, w)
	}
	return err
}

// old returns the value that w replaces or removes, or nil. Values that drop removes are not among
// those: no other change of the same job has their keys.
func (p *plan) old(w *planned) ([]byte, error) {
	for i := len(p.writes) - 1; i >= p.dropped; i-- {
		if o := &p.writes[i]; o.table == w.table && bytes.Equal(o.key, w.key) {
			return o.value, nil
		}
	}
	return w.table.get(w.key)
}

// stored returns an account. A missing account has no State.
func (b *buckets) stored(name string) (a ledger.Account, err error) {
	for i := range b.known {
		if b.known[i].Key == name {
			return b.known[i], nil
		}
	}
	if a, err = b.look(name); err == nil {
		b.known = append(b.known, a)
	}
	return a, err
}

// look reads an account.
func (b *buckets) look(name string) (ledger.Account, error) {
	v, err := b.accounts.get(prefix(name, ofState))
	if v == nil || err != nil {
		return ledger.Account{Key: name}, err
	}
	return decodeAccount(name, v)
}

func holdKey(h ledger.Hold) []byte {
	return append(number(prefix(h.Account, ofHolds), h.Expires), h.SpendID...)
}

// drop plans to remove an account's entries up to a time, and their dates.
func (p *plan) drop(d ledger.Drop) error {
	start := prefix(d.Account, ofEntries)
	c, err := p.accounts.ascend(start, start)
	for err == nil {
		var k, v []byte
		if k, v, err = c.next(); k == nil || err != nil || numberAt(k[len(start):]) > d.At {
			break
		}
		var e ledger.Entry
		if e, err = decodeEntry(k, v); err != nil {
			break
		}
		p.writes = append(p.writes, planned{table: p.accounts, key: k})
		if e.Part != e.Seq {
			err = p.replace(planned{table: p.accounts, key: entryKey(e.Account, ofDates, e.Dated, e.Seq)})
		}
	}
	return err
}

// table is a table in a transaction. A damaged value is empty, and no value is.
type table struct {
	tx *kv.Tx
	t  *kv.Table
}

var damaged = []byte{}

// get returns the value of key, or nil.
func (t *table) get(key []byte) ([]byte, error) {
	v, err := t.tx.Get(t.t, string(key))
	if errors.Is(err, kv.ErrDamaged) {
		return damaged, nil
	}
	return v, err
}

// put stores a value, or removes the key if it is nil.
func (t *table) put(key, value []byte) error {
	if value == nil {
		return t.tx.Delete(t.t, string(key))
	}
	t.tx.Put(t.t, string(key), value)
	return nil
}

// cursor walks the keys of a table that begin with some bytes.
type cursor struct {
	c      *kv.Cursor
	prefix []byte
}

// ascend returns a cursor over the keys that are not less than from.
func (t *table) ascend(prefix, from []byte) (*cursor, error) {
	c, err := t.tx.Ascend(t.t, string(from))
	return &cursor{c, prefix}, err
}

// descend returns a cursor over the keys that are less than before.
func (t *table) descend(prefix, before []byte) (*cursor, error) {
	c, err := t.tx.Descend(t.t, string(before))
	return &cursor{c, prefix}, err
}

// next returns the next key and its value; the key is nil at the end.
func (c *cursor) next() (key, value []byte, err error) {
	k, v, ok, err := c.c.Next()
	if key = []byte(k); err != nil || !ok || !bytes.HasPrefix(key, c.prefix) {
		return nil, nil, err
	}
	if v == nil {
		v = damaged
	}
	return key, v, nil
}
