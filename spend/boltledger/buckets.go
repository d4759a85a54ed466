package boltledger

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/spend/ledger"
)

// names holds the names of the ledger's bbolt buckets. The first bucket holds the working sets,
// entries and holds of accounts, under the keys that codec.go describes. The second holds
// requests by ID.
type names struct{ accounts, requests []byte }

func namesOf(name string) names {
	return names{[]byte(name + ".accounts"), []byte(name + ".requests")}
}

func (n names) all() [][]byte { return [][]byte{n.accounts, n.requests} }

// in reports whether tx has all buckets of the ledger.
func (n names) in(tx *bbolt.Tx) bool {
	return !slices.ContainsFunc(n.all(), func(name []byte) bool { return tx.Bucket(name) == nil })
}

func (n names) create(tx *bbolt.Tx) error {
	for _, name := range n.all() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return boltfile.Unavailable(fmt.Sprintf("creating the ledger's buckets: %v", err), err)
		}
	}
	return nil
}

// buckets holds the ledger's bbolt buckets in one transaction.
type buckets struct{ accounts, requests *bbolt.Bucket }

func (n names) open(tx *bbolt.Tx) (*buckets, error) {
	if !n.in(tx) {
		return nil, boltfile.Damagef("a bucket of the ledger is missing")
	}
	return &buckets{tx.Bucket(n.accounts), tx.Bucket(n.requests)}, nil
}

// forget removes requests by ID.
func (n names) forget(tx *bbolt.Tx, ids [][]byte) error {
	b, err := n.open(tx)
	for _, id := range ids {
		if err == nil {
			err = b.requests.Delete(id)
		}
	}
	return err
}

// run decides a job and stores its changes. The error of the job itself is a jobError.
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

// view runs a job and drops its changes. The error of the job itself is a jobError.
func (b *buckets) view(job *ledger.Job, now int64) error {
	if _, err := job.Run(b.snapshot(job, now)); err != nil {
		return jobError{err}
	}
	return nil
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

// drop removes an account's entries up to a time, and their dates.
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
