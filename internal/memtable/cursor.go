package memtable

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// Cursor walks the keys of a group in ascending or descending order.
type Cursor struct {
	name  []byte
	lists [][]item // what is left of the changes, the newest first
	file  *bbolt.Cursor
	k, v  []byte // the next key of the file that is in the group; nil at the end
	down  bool
	key   []byte
}

// Ascend returns a cursor over the keys of a group that are not less than from.
func (t *Table) Ascend(group, from []byte) *Cursor {
	c := &Cursor{name: group, file: t.bucket.Cursor()}
	c.stored(c.file.Seek(from))
	t.changed(group, func(items []item) bool {
		at, _ := find(items, from)
		c.lists = append(c.lists, items[at:])
		return true
	})
	return c
}

// Descend returns a cursor over the keys of a group that are less than before. Before is in the
// group, or after all of its keys and before those of any other group.
func (t *Table) Descend(group, before []byte) *Cursor {
	c := &Cursor{name: group, file: t.bucket.Cursor(), down: true}
	if k, _ := c.file.Seek(before); k != nil {
		c.stored(c.file.Prev())
	} else {
		c.stored(c.file.Last())
	}
	t.changed(group, func(items []item) bool {
		at, _ := find(items, before)
		c.lists = append(c.lists, items[:at])
		return true
	})
	return c
}

func (c *Cursor) stored(k, v []byte) {
	if c.k, c.v = nil, nil; bytes.HasPrefix(k, c.name) {
		c.k, c.v = k, v
	}
}

// Next returns the next key and its value; the key is nil at the end. Neither must be changed. The
// key is valid until the next call.
func (c *Cursor) Next() (key, value []byte) {
	for {
		first := c.first()
		switch {
		case first == nil && c.k == nil:
			return nil, nil
		case first == nil || c.k != nil && c.before(string(c.k), first.key):
			key, value = c.k, c.v
			c.step()
			return key, value
		}
		value = first.value
		c.key = append(c.key[:0], first.key...)
		c.pass()
		if value != nil {
			return c.key, value
		}
	}
}

// before reports whether key comes before other, and not with it.
func (c *Cursor) before(key, other string) bool {
	if c.down {
		return key > other
	}
	return key < other
}

// next returns the first item of a list in the order of the cursor, or nil.
func (c *Cursor) next(list []item) *item {
	switch {
	case len(list) == 0:
		return nil
	case c.down:
		return &list[len(list)-1]
	}
	return &list[0]
}

// first returns the newest change of the first key that has one, or nil.
func (c *Cursor) first() (first *item) {
	for _, list := range c.lists {
		if i := c.next(list); i != nil && (first == nil || c.before(i.key, first.key)) {
			first = i
		}
	}
	return first
}

// pass passes over c.key everywhere.
func (c *Cursor) pass() {
	for n, list := range c.lists {
		switch i := c.next(list); {
		case i == nil || i.key != string(c.key):
		case c.down:
			c.lists[n] = list[:len(list)-1]
		default:
			c.lists[n] = list[1:]
		}
	}
	if bytes.Equal(c.k, c.key) {
		c.step()
	}
}

func (c *Cursor) step() {
	if c.down {
		c.stored(c.file.Prev())
	} else {
		c.stored(c.file.Next())
	}
}
