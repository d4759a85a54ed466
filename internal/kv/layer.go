package kv

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/invariant"
)

// Table is one ordered set of keys.
type Table struct {
	*boltfile.Table
	name  string
	index int // in the database, in the order of the first calls
}

// change is a change of one key. A nil value says that the key was deleted.
type change struct {
	table *Table
	key   string
	value []byte
}

// sameTable returns the first changes of a list, all of one table.
func sameTable(list []change) []change {
	n := 1
	for n < len(list) && list[n].table == list[0].table {
		n++
	}
	return list[:n]
}

// changes are those of a transaction.
type changes struct {
	list  []change
	index []map[string]int // by Table.index: the place of a key in the list; empty while the list is short
}

// shortList is the largest number of changes that are searched one by one.
const shortList = 8

// find returns the place of a key in the list, or -1.
func (c *changes) find(t *Table, key string) int {
	if len(c.list) <= shortList {
		return slices.IndexFunc(c.list, func(o change) bool { return o.table == t && o.key == key })
	}
	if t.index < len(c.index) {
		if i, ok := c.index[t.index][key]; ok {
			return i
		}
	}
	return -1
}

func (c *changes) put(t *Table, key string, value []byte) {
	if i := c.find(t, key); i >= 0 {
		c.list[i].value = value
		return
	}
	c.list = append(c.list, change{t, key, value})
	switch n := len(c.list); {
	case n == shortList+1:
		for i := range c.list {
			c.enter(i)
		}
	case n > shortList:
		c.enter(n - 1)
	}
}

// enter puts a place of the list into the index.
func (c *changes) enter(i int) {
	t := c.list[i].table
	for len(c.index) <= t.index {
		c.index = append(c.index, make(map[string]int))
	}
	c.index[t.index][c.list[i].key] = i
}

// keepChanges is the largest number of changes whose memory the next transaction uses again. A rare
// large transaction must not hold its memory for ever, or slow down every emptying of the map.
const keepChanges = 8192

func (c *changes) clear() {
	if len(c.list) > keepChanges {
		*c = changes{}
		return
	}
	if len(c.list) > shortList {
		for _, m := range c.index {
			clear(m)
		}
	}
	clear(c.list)
	c.list = c.list[:0]
}

// layer holds changes of tables in memory. DB.mu guards a layer that changes.
type layer struct {
	tables []*memtable // by Table.index; may be short
	n      int         // keys
	slab   []item      // for the next keys: one allocation makes many, which go together in the end
}

// slabSize is the number of items of a slab.
const slabSize = 128

// memtable holds the changes of a table. An item that a snapshot may have is replaced; others
// change in place.
type memtable struct {
	table *Table
	index map[string]*item // nil in a snapshot
	tree  atomic.Pointer[tree]
	epoch int // snapshots so far
}

// tree has the items in order of key, once somebody has asked for the order.
type tree = btree.Map[string, *item]

type item struct {
	value []byte
	epoch int
}

// ordered returns the items in order. If two goroutines build the tree of a frozen layer at once,
// one of the two equal trees stays.
func (m *memtable) ordered() *tree {
	t := m.tree.Load()
	if t == nil {
		t = new(tree)
		for key, i := range m.index {
			t.Set(key, i)
		}
		m.tree.Store(t)
	}
	return t
}

func (l *layer) get(t *Table, key string) (value []byte, ok bool) {
	if t.index >= len(l.tables) {
		return nil, false
	}
	m := l.tables[t.index]
	invariant.Assert(m != nil, "a view reads a table that it was not begun for")
	var i *item
	if m.index != nil {
		i = m.index[key]
	} else {
		i, _ = m.ordered().Get(key)
	}
	if i == nil {
		return nil, false
	}
	return i.value, true
}

// put puts a change in. The key is copied if it stays.
func (l *layer) put(t *Table, key string, value []byte) { l.set(t, key, value, strings.Clone) }

// restore is put for a key that may stay as it is.
func (l *layer) restore(t *Table, key string, value []byte) {
	l.set(t, key, value, func(key string) string { return key })
}

func (l *layer) set(t *Table, key string, value []byte, keep func(string) string) {
	for len(l.tables) <= t.index {
		l.tables = append(l.tables, &memtable{index: make(map[string]*item)})
	}
	m := l.tables[t.index]
	i := m.index[key]
	if i != nil && i.epoch == m.epoch {
		i.value = value
		return
	}
	if i == nil {
		key = keep(key)
		l.n++
	}
	if len(l.slab) == 0 {
		l.slab = make([]item, slabSize)
	}
	i, l.slab = &l.slab[0], l.slab[1:]
	*i = item{value, m.epoch}
	m.table, m.index[key] = t, i
	if o := m.tree.Load(); o != nil {
		o.Set(key, i)
	}
}

// snapshot returns some tables of the layer as they are now. Their trees are copied on write.
func (l *layer) snapshot(tables []*Table) *layer {
	c := &layer{tables: make([]*memtable, len(l.tables))}
	for _, t := range tables {
		if t.index < len(l.tables) {
			m := l.tables[t.index]
			m.epoch++
			s := &memtable{table: t}
			s.tree.Store(m.ordered().Copy())
			c.tables[t.index] = s
		}
	}
	return c
}

// all returns the changes in order of table and key.
func (l *layer) all() []change {
	all := make([]change, 0, l.n)
	for _, m := range l.tables {
		first := len(all)
		for key, i := range m.index {
			all = append(all, change{m.table, key, i.value})
		}
		slices.SortFunc(all[first:], func(a, b change) int { return strings.Compare(a.key, b.key) })
	}
	return all
}
