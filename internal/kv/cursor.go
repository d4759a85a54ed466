package kv

import (
	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
)

// Cursor walks the keys of a table, in one direction. It merges the layers with the file.
type Cursor struct {
	tx     *Tx
	t      *Table
	down   bool
	layers []*walk // the newest first
	file   *bbolt.Cursor
	k, v   []byte // of the file; k is nil at the end
}

// walk is the place of a cursor in a layer.
type walk struct {
	btree.MapIter[string, *item]
	on bool // at a key
}

// Ascend returns a cursor that begins with the first key not less than from. Changes of tx after
// this call may not show.
func (tx *Tx) Ascend(t *Table, from string) (*Cursor, error) { return tx.cursor(t, from, false) }

// Descend returns a cursor that begins with the last key less than before.
func (tx *Tx) Descend(t *Table, before string) (*Cursor, error) { return tx.cursor(t, before, true) }

func (tx *Tx) cursor(t *Table, at string, down bool) (c *Cursor, err error) {
	c = &Cursor{tx: tx, t: t, down: down}
	err = tx.db.file.Guard(func() error {
		b, err := tx.bucket(t)
		if err != nil {
			return err
		}
		c.file = b.Cursor()
		c.k, c.v = c.file.Seek([]byte(at))
		switch {
		case !down:
		case c.k != nil:
			c.k, c.v = c.file.Prev()
		default:
			c.k, c.v = c.file.Last()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if tx.order == nil && !tx.none() {
		tx.order = new(layer)
		for _, change := range tx.own.list {
			tx.order.put(change.table, change.key, change.value)
		}
	}
	if tx.order != nil {
		c.walk(tx.order, at)
	}
	for _, l := range tx.base {
		c.walk(l, at)
	}
	return c, nil
}

// walk adds a layer to the cursor.
func (c *Cursor) walk(l *layer, at string) {
	if c.t.index >= len(l.tables) {
		return
	}
	w := &walk{MapIter: l.tables[c.t.index].ordered().Iter()}
	w.on = w.Seek(at)
	switch {
	case !c.down:
	case w.on:
		w.on = w.Prev()
	default:
		w.on = w.Last()
	}
	c.layers = append(c.layers, w)
}

// Next returns the next key and its value; ok is false at the end. The value of a key is nil if it
// is damaged.
func (c *Cursor) Next() (key string, value []byte, ok bool, err error) {
	err = c.tx.db.file.Guard(func() error { key, value, ok = c.next(); return nil })
	return key, value, ok, err
}

func (c *Cursor) next() (key string, value []byte, ok bool) {
	for {
		var first *walk
		for _, w := range c.layers {
			if w.on && (first == nil || c.before(w.Key(), first.Key())) {
				first = w
			}
		}
		switch {
		case first == nil && c.k == nil:
			return "", nil, false
		case first == nil || c.k != nil && c.before(string(c.k), first.Key()):
			key = string(c.k)
			value, _, ok := c.t.Open(c.k, c.v)
			c.step()
			if !ok {
				value = nil
			}
			return key, value, true
		}
		key, value = first.Key(), first.Value().value
		for _, w := range c.layers { // older values of the key do not count
			switch {
			case !w.on || w.Key() != key:
			case c.down:
				w.on = w.Prev()
			default:
				w.on = w.MapIter.Next()
			}
		}
		if c.k != nil && string(c.k) == key {
			c.step()
		}
		if value != nil {
			return key, value, true
		}
	}
}

func (c *Cursor) before(a, b string) bool {
	if c.down {
		return a > b
	}
	return a < b
}

func (c *Cursor) step() {
	if c.down {
		c.k, c.v = c.file.Prev()
	} else {
		c.k, c.v = c.file.Next()
	}
}
