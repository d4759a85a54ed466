package boltledger

import (
	"bytes"
	"cmp"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// names holds the tables of the ledger. The first holds the working sets, entries and holds of
// accounts, under the keys that codec.go describes. The second holds requests by ID.
type names struct{ accounts, requests *boltfile.Table }

func namesOf(name string) *names {
	return &names{boltfile.NewTable(name + ".accounts"), boltfile.NewTable(name + ".requests")}
}

// all lists the names of the bbolt buckets.
func (n *names) all() [][]byte {
	return [][]byte{n.accounts.Name(), n.accounts.MetaName(), n.requests.Name(), n.requests.MetaName()}
}

// in reports whether tx has the buckets of the ledger. It must have all of them or none: a new one
// in the place of one that was lost would be empty.
func (n *names) in(tx *bbolt.Tx) (bool, error) {
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
	if there, err := n.in(tx); there || err != nil { // another ledger may have created them by now
		return err
	}
	for _, t := range [...]*boltfile.Table{n.accounts, n.requests} {
		if _, err := t.Create(tx); err != nil {
			return boltfile.Unavailable(fmt.Sprintf("creating the ledger's buckets: %v", err), err)
		}
	}
	return nil
}

// buckets holds the ledger's tables in one view.
type buckets struct {
	*names
	accounts, requests *memtable.Table
	known              []ledger.Account // that the job has read
}

func (n *names) open(v *memtable.View) (*buckets, error) {
	there, err := n.in(v.Tx())
	if err == nil && !there {
		err = boltfile.Damagef("the buckets of the ledger are missing")
	}
	if err != nil {
		return nil, err
	}
	return &buckets{names: n, accounts: v.Table(n.accounts), requests: v.Table(n.requests)}, nil
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

// apply puts changes into the view. A jobError means that damage keeps this job from being stored,
// and that nothing of it is; any other error fails the transaction.
func (b *buckets) apply(c *ledger.Changes) error {
	p, err := b.plan(c)
	if err != nil {
		return jobError{store.Wrap(backend, "decide", err)}
	}
	for i := range p.writes {
		w := &p.writes[i]
		w.table.Put(w.key, w.group, w.value)
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
	table *memtable.Table
	key   []byte
	group int // the bytes of key that name its group
	value []byte
}

// plan reads the values that changes replace or remove. If one of them is damaged, the job fails
// before any of its changes are stored.
func (b *buckets) plan(c *ledger.Changes) (p *plan, err error) {
	p = &plan{buckets: b}
	for _, d := range c.Drop {
		err = cmp.Or(err, p.drop(d))
	}
	p.dropped = len(p.writes)
	for i := range c.Accounts {
		a := &c.Accounts[i]
		_, damage := p.stored(a.Key)
		err = cmp.Or(err, damage)
		p.put(a.Key, prefix(a.Key, ofState), encodeAccount(a))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		p.put(e.Account, entryKey(e.Account, ofEntries, e.At, e.Seq), encodeEntry(e))
		if e.Part != e.Seq {
			at := newEncoder()
			at.int(e.At)
			p.put(e.Account, entryKey(e.Account, ofDates, e.Dated, e.Seq), at)
		}
	}
	for i := range c.Requests {
		p.writes = append(p.writes, p.answer(&c.Requests[i])) // the job has looked for the ID and found none
	}
	for i := range c.Spends {
		r, rerr := b.decodeRequest([]byte(c.Spends[i].ID), b.request([]byte(c.Spends[i].ID)))
		if err = cmp.Or(err, rerr); err == nil {
			r.Spend = c.Spends[i].Spend
			w := p.answer(r)
			err = p.replace(w, p.old(&w))
		}
	}
	for _, h := range c.Opened {
		p.put(h.Account, holdKey(h), newEncoder())
	}
	for _, h := range c.Closed {
		w := planned{table: b.accounts, key: holdKey(h), group: len(h.Account) + 2}
		err = cmp.Or(err, p.replace(w, p.old(&w)))
	}
	return p, err
}

// put plans to store a value of an account. The job has read the account's working set, and every
// other key is new: the number of an entry is higher than those of all others, and a hold that is
// open already has an earlier expiry. To look for an earlier value would take as long as all other
// work of a plan.
func (p *plan) put(account string, key []byte, value *encoder) {
	t := p.buckets.accounts
	p.writes = append(p.writes, planned{t, key, len(account) + 2, value.seal(t.Table, key)})
}

// answer returns the write of a request.
func (p *plan) answer(r *ledger.Request) planned {
	key := []byte(r.ID)
	return planned{p.requests, key, len(key), encodeRequest(r).seal(p.requests.Table, key)}
}

// old returns the value that w replaces or removes, or nil. Values that drop removes are not among
// those: no other change of the same job has their keys.
func (p *plan) old(w *planned) []byte {
	for i := len(p.writes) - 1; i >= p.dropped; i-- {
		if o := &p.writes[i]; o.table == w.table && bytes.Equal(o.key, w.key) {
			return o.value
		}
	}
	return w.table.Get(w.key, w.group)
}

// replace plans a write, unless it replaces or removes a damaged value.
func (p *plan) replace(w planned, old []byte) error {
	if old != nil {
		if d := open("a value", w.table.Table, w.key, old); d.err != nil {
			return d.err
		}
	}
	p.writes = append(p.writes, w)
	return nil
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
	key := prefix(name, ofState)
	v := b.accounts.Get(key, len(key))
	if v == nil {
		return ledger.Account{Key: name}, nil
	}
	return b.decodeAccount(name, key, v)
}

func holdKey(h ledger.Hold) []byte {
	return append(number(prefix(h.Account, ofHolds), h.Expires), h.SpendID...)
}

// request returns the stored request of an ID, or nil.
func (b *buckets) request(id []byte) []byte { return b.requests.Get(id, len(id)) }

// drop plans to remove an account's entries up to a time, and their dates.
func (p *plan) drop(d ledger.Drop) error {
	start := prefix(d.Account, ofEntries)
	c, t := p.buckets.accounts.Ascend(start, start), p.buckets.accounts
	for k, v := c.Next(); k != nil && numberAt(k[len(start):]) <= d.At; k, v = c.Next() {
		e, err := p.decodeEntry(k, v)
		if err == nil {
			p.writes = append(p.writes, planned{table: t, key: bytes.Clone(k), group: len(start)})
		}
		if err == nil && e.Part != e.Seq {
			date := entryKey(e.Account, ofDates, e.Dated, e.Seq)
			err = p.replace(planned{table: t, key: date, group: len(start)}, t.Get(date, len(start)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
