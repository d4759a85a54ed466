package kv

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/invariant"
)

// ErrDamaged is the error of a value whose checksums are wrong.
var ErrDamaged = boltfile.Damagef("a value does not match its checksums")

// NoTime is the time of changes that keep the time of those before them. Times before 1970 are
// negative, so it is the lowest of all.
const NoTime = math.MinInt64

// Tx reads tables as of one moment, and collects changes. It is for one goroutine at a time. It
// sees its own changes, then the layers of the memtable, the newest first, and then the file.
type Tx struct {
	Time int64 // of the changes, for the clock after the next Open; NoTime to keep the time before

	db    *DB
	own   changes
	order *layer    // has own in order, once somebody has asked for the order
	base  []*layer  // of the memtable, the newest first
	btx   *bbolt.Tx // nil until the file is read
	ended func()    // ends btx; nil if somebody else does
	// buckets has the bucket of each table in btx, as far as it was used.
	buckets []*bbolt.Bucket
	key     []byte
}

// DB returns the database of the transaction.
func (tx *Tx) DB() *DB { return tx.db }

// read begins to read the file. The first miss in memory calls it.
func (tx *Tx) read() (err error) {
	if tx.btx == nil {
		tx.btx, tx.ended, err = tx.db.file.Read()
	}
	return err
}

// Rest ends the reading of the file until the next miss in memory, so that code of an application
// runs without a lock of the file. The values so far stay good only as copies. Later reads of tx
// are of the same moment: nobody else changes the database, and a checkpoint changes no content.
func (tx *Tx) Rest() {
	if tx.ended != nil {
		tx.ended()
		tx.btx, tx.ended = nil, nil
		clear(tx.buckets)
	}
}

// reset makes tx ready for the next transaction.
func (tx *Tx) reset() {
	tx.Rest()
	tx.own.clear()
	clear(tx.buckets)
	clear(tx.base)
	tx.Time, tx.order, tx.base, tx.btx, tx.buckets = NoTime, nil, tx.base[:0], nil, tx.buckets[:0]
}

func (tx *Tx) bucket(t *Table) (*bbolt.Bucket, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	for len(tx.buckets) <= t.index {
		tx.buckets = append(tx.buckets, nil)
	}
	if tx.buckets[t.index] == nil {
		b, err := tx.look(t)
		if err != nil {
			return nil, err
		}
		tx.buckets[t.index] = b
	}
	return tx.buckets[t.index], nil
}

// look finds the bucket of a table. An application may change its database, and a table without
// totals may lack values, too. Open has checked a file of its own, where a look is part of every
// miss.
func (tx *Tx) look(t *Table) (*bbolt.Bucket, error) {
	if tx.db.file.Owned() {
		if b := tx.btx.Bucket(t.Name()); b != nil {
			return b, nil
		}
	}
	b, meta, err := t.find(tx.btx)
	if err == nil {
		_, err = t.Totals(meta)
	}
	return b, err
}

// Check returns an error if tx is a transaction of the file itself, and the file lacks the table.
// Over a memtable, the first miss in memory finds that out.
func (tx *Tx) Check(t *Table) error {
	if tx.btx == nil {
		return nil
	}
	return tx.db.file.Guard(func() error { _, err := tx.bucket(t); return err })
}

// find returns the buckets of the table in btx, which must have them.
func (t *Table) find(btx *bbolt.Tx) (values, meta *bbolt.Bucket, err error) {
	values, meta, err = t.Find(btx)
	if err == nil && values == nil {
		err = boltfile.Damagef("the buckets %q and %q are missing", t.Name(), t.MetaName())
	}
	return values, meta, err
}

// Get returns the value of key, or nil. It is good until the transaction ends or rests, and must
// not be changed. A value whose checksums are wrong is [ErrDamaged].
func (tx *Tx) Get(t *Table, key string) ([]byte, error) {
	if v, ok := tx.changed(t, key); ok {
		return v, nil
	}
	return tx.stored(t, key)
}

func (tx *Tx) changed(t *Table, key string) ([]byte, bool) {
	if i := tx.own.find(t, key); i >= 0 {
		return tx.own.list[i].value, true
	}
	for _, l := range tx.base {
		if v, ok := l.get(t, key); ok {
			return v, true
		}
	}
	return nil, false
}

// stored returns the value of key in the file.
func (tx *Tx) stored(t *Table, key string) (value []byte, err error) {
	err = tx.db.file.Guard(func() error {
		b, err := tx.bucket(t)
		if err != nil {
			return err
		}
		tx.key = append(tx.key[:0], key...)
		raw := b.Get(tx.key)
		if raw == nil {
			return nil
		}
		body, _, ok := t.Open(tx.key, raw)
		if !ok {
			return ErrDamaged
		}
		value = body
		return nil
	})
	return value, err
}

// Put sets the value of key, which must not be nil. Neither may change afterwards.
func (tx *Tx) Put(t *Table, key string, value []byte) {
	invariant.Assert(value != nil, "a key is set to no value")
	tx.set(t, key, value)
}

// Delete removes key, also if its value is damaged.
func (tx *Tx) Delete(t *Table, key string) error {
	v, err := tx.Get(t, key)
	if err != nil && !errors.Is(err, ErrDamaged) || err == nil && v == nil {
		return err
	}
	tx.set(t, key, nil)
	return nil
}

func (tx *Tx) set(t *Table, key string, value []byte) {
	tx.own.put(t, key, value)
	if tx.order != nil {
		tx.order.put(t, key, value)
	}
}

// sorted returns the changes in order of table and key.
func (tx *Tx) sorted() []change {
	slices.SortFunc(tx.own.list, func(a, b change) int {
		return cmp.Or(a.table.index-b.table.index, strings.Compare(a.key, b.key))
	})
	return tx.own.list
}

func (tx *Tx) none() bool { return len(tx.own.list) == 0 }

// check returns the error of a key that the file does not take. It is asked before the log has the
// change: a log with a change that no checkpoint can write would be of no use.
func (tx *Tx) check() error {
	for i := range tx.own.list {
		if err := checkKey(len(tx.own.list[i].key)); err != nil {
			return err
		}
	}
	return nil
}

// checkKey returns the error of a key of that size, if the file does not take it.
func checkKey(size int) error {
	switch {
	case size == 0:
		return boltfile.Misconfigured("nothing was applied: key required", nil)
	case size > bbolt.MaxKeySize:
		return boltfile.Misconfigured("nothing was applied: key too large", nil)
	}
	return nil
}

// fillAtEnd is how full a page becomes that splits because keys come after all others. Room between
// them would stay empty for ever.
const fillAtEnd = 0.95

// write puts changes, which are in order of table and key, into btx, and keeps the totals right.
func write(btx *bbolt.Tx, list []change, time int64) error {
	for len(list) > 0 {
		run := sameTable(list)
		if err := writeTable(btx, run[0].table, run, time); err != nil {
			return err
		}
		list = list[len(run):]
	}
	return nil
}

func writeTable(btx *bbolt.Tx, t *Table, list []change, time int64) error {
	b, meta, err := t.find(btx)
	if err != nil {
		return err
	}
	totals, err := t.Totals(meta)
	if err != nil {
		return err
	}
	last, _ := b.Cursor().Last()
	last = bytes.Clone(last)
	var damaged map[string]boltfile.Sum
	var buf, key []byte
	grows := false // a new key was put in
	for i := range list {
		invariant.Assert(i == 0 || list[i-1].key < list[i].key, "changes are written out of order")
		value := list[i].value
		key = append(key[:0], list[i].key...)
		old := b.Get(key)
		if old != nil {
			_, sum, ok := t.Open(key, old)
			if !ok {
				if damaged == nil {
					damaged = t.Damaged(b, &totals)
				}
				sum = damaged[list[i].key]
			}
			totals.Remove(sum)
		} else if value == nil {
			continue
		} else if !grows && bytes.Compare(key, last) > 0 { // and so are all new keys after it
			b.FillPercent = fillAtEnd
		}
		grows = grows || old == nil
		if value == nil {
			err = b.Delete(key)
		} else {
			n := len(value) + boltfile.SealSize
			if len(buf) < n { // bbolt refers to the value until the commit
				buf = make([]byte, max(n, 64<<10))
			}
			sealed := buf[:n:n]
			buf = buf[n:]
			copy(sealed, value)
			totals.Add(t.Seal(key, sealed))
			err = b.Put(key, sealed)
		}
		if err != nil {
			return err
		}
	}
	if t.index == 0 && time != NoTime {
		totals.Time = time
	}
	return t.PutTotals(meta, new([boltfile.TotalsSize]byte), &totals)
}
