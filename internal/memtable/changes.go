package memtable

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// Changes are the changes of a view.
type Changes struct{ tables []*changed }

// changed holds the changes of a table.
type changed struct {
	table  string
	groups groups
	list   []*group // in the order of their first changes
}

func (c *changed) add(name string) *group {
	g := &group{name: name}
	c.groups[name] = g
	c.list = append(c.list, g)
	return g
}

// None reports whether there are no changes.
func (c *Changes) None() bool {
	return !slices.ContainsFunc(c.tables, func(t *changed) bool { return len(t.list) > 0 })
}

// Append appends the changes to b, for a journal. All numbers are uvarints, and the size of each
// string precedes it. For each table:
//
//	name, number of groups
//	for each group: name, number of items
//	for each item: the rest of the key; 0 for a key that is removed, or 1 and the value
func (c *Changes) Append(b []byte) []byte {
	for _, t := range c.tables {
		if len(t.list) == 0 {
			continue
		}
		b = appendString(b, t.table)
		b = binary.AppendUvarint(b, uint64(len(t.list)))
		for _, g := range t.list {
			b = appendString(b, g.name)
			b = binary.AppendUvarint(b, uint64(len(g.items)))
			for i := range g.items {
				b = appendString(b, g.items[i].key[len(g.name):])
				if g.items[i].value == nil {
					b = append(b, 0)
				} else {
					b = appendString(append(b, 1), g.items[i].value)
				}
			}
		}
	}
	return b
}

// pack moves all changes together. Many of them wait in memory for the next write to the file, and
// the garbage collector has a few large objects to look at instead of several for each change.
func (c *Changes) pack() {
	groupCount, itemCount, keySize, valueSize := 0, 0, 0, 0
	for _, t := range c.tables {
		groupCount += len(t.list)
		for _, g := range t.list {
			itemCount += len(g.items)
			for i := range g.items {
				keySize, valueSize = keySize+len(g.items[i].key), valueSize+len(g.items[i].value)
			}
		}
	}
	list, items, values := make([]group, groupCount), make([]item, 0, itemCount), make([]byte, 0, valueSize)
	var text strings.Builder
	text.Grow(keySize)
	for _, t := range c.tables {
		for n, g := range t.list {
			start := len(items)
			for _, i := range g.items {
				text.WriteString(i.key)
				if i.value != nil {
					begin := len(values)
					values = append(values, i.value...)
					i.value = values[begin:len(values):len(values)]
				}
				items = append(items, i)
			}
			list[0] = group{name: g.name, items: items[start:len(items):len(items)]}
			t.list[n], list = &list[0], list[1:]
		}
	}
	keys := text.String()
	for i := range items {
		size := len(items[i].key)
		items[i].key, keys = keys[:size], keys[size:]
	}
	for _, t := range c.tables {
		for _, g := range t.list {
			g.name = g.items[0].key[:len(g.name)]
		}
	}
}

func appendString[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Read reads the output of [Changes.Append], which it keeps.
func Read(body []byte) (*Changes, error) {
	d := decoder{b: body}
	c := &Changes{}
	for len(d.b) > 0 && !d.bad {
		t := &changed{table: string(d.bytes()), groups: make(groups)}
		c.tables = append(c.tables, t)
		for range d.count() {
			g := &group{name: string(d.bytes())}
			for range d.count() {
				i := item{key: g.name + string(d.bytes())}
				if d.count() > 0 {
					i.value = d.bytes()
				}
				g.items = append(g.items, i)
			}
			if len(g.items) == 0 {
				d.bad = true
			}
			t.list = append(t.list, g)
		}
	}
	if d.bad {
		return nil, boltfile.Damagef("the journal holds a change of a table that cannot be read")
	}
	return c, nil
}

// decoder reads values from b. After bad is set, all values are zero.
type decoder struct {
	b   []byte
	bad bool
}

// count reads the number of the elements that follow, each of which takes at least a byte.
func (d *decoder) count() int {
	n, size := binary.Uvarint(d.b)
	if d.bad || size <= 0 || n > uint64(len(d.b)-size) {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// Write puts the changes into a transaction.
func (c *Changes) Write(tx *bbolt.Tx) error {
	for _, t := range c.tables {
		if len(t.list) == 0 {
			continue
		}
		if err := write(tx, t.table, sorted(slices.Clone(t.list))); err != nil {
			return err
		}
	}
	return nil
}

// Parts returns functions that put the frozen changes into transactions, about size changes each.
// They must be called in order.
func (f Frozen) Parts(size int) (parts []func(tx *bbolt.Tx) error) {
	for _, l := range f {
		for _, table := range slices.Sorted(maps.Keys(l)) {
			for items := range slices.Chunk(sorted(slices.Collect(maps.Values(l[table]))), size) {
				parts = append(parts, func(tx *bbolt.Tx) error { return write(tx, table, items) })
			}
		}
	}
	return parts
}

// write puts items into a transaction, and keeps the totals of the table right.
func write(tx *bbolt.Tx, table string, items []item) error {
	t := boltfile.NewTable(table)
	bucket, meta, err := t.Find(tx)
	if err == nil && bucket == nil {
		err = boltfile.Damagef("the bucket %q is missing, and the journal has changes for it", table)
	}
	if err != nil {
		return err
	}
	totals, err := t.Totals(meta)
	if err != nil {
		return err
	}
	var key []byte // bbolt makes a copy
	for i := range items {
		value := items[i].value
		key = append(key[:0], items[i].key...)
		if old := bucket.Get(key); old != nil {
			totals.Remove(t.Part(key, old))
		}
		if value == nil {
			err = bucket.Delete(key)
		} else {
			totals.Add(t.Part(key, value))
			err = bucket.Put(key, value)
		}
		if err != nil {
			return err
		}
	}
	return t.PutTotals(meta, new([boltfile.TotalsSize]byte), &totals)
}
