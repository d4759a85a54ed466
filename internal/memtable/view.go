package memtable

import (
	"maps"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// View shows a transaction of a file, the changes in memory over it, and its own changes over both.
// It is for one goroutine.
type View struct {
	tx      *bbolt.Tx
	tables  *Tables // nil if there is no journal
	active  layer
	frozen  []layer
	version uint64
	staged  []*changed
}

// NewView returns a view of a transaction alone.
func NewView(tx *bbolt.Tx) *View { return &View{tx: tx} }

// Tx returns the transaction.
func (v *View) Tx() *bbolt.Tx { return v.tx }

// Changes returns the changes of the view itself. They may outlast it.
func (v *View) Changes() *Changes { return &Changes{v.staged} }

// Table returns a table of the file, which has its bucket.
func (v *View) Table(t *boltfile.Table) *Table {
	table := &Table{Table: t, view: v, bucket: v.tx.Bucket(t.Name())}
	name := string(t.Name())
	table.staged = v.changed(name)
	for _, l := range slices.Backward(v.frozen) {
		if g := l[name]; g != nil {
			table.frozen = append(table.frozen, g)
		}
	}
	if v.tables != nil {
		table.mu = &v.tables.mu
		table.mu.RLock()
		defer table.mu.RUnlock()
		table.active = v.active[name]
	}
	return table
}

// changed returns the changes of the view to a table.
func (v *View) changed(table string) *changed {
	for _, c := range v.staged {
		if c.table == table {
			return c
		}
	}
	c := &changed{table: table, groups: make(groups)}
	v.staged = append(v.staged, c)
	return c
}

// Table is a table in a view.
type Table struct {
	*boltfile.Table
	view   *View
	bucket *bbolt.Bucket
	staged *changed
	mu     *sync.RWMutex // guards active
	active groups
	frozen []groups // newest first
}

// changed calls fn with the changes of a group, the newest first, until fn returns false.
func (t *Table) changed(name []byte, fn func(items []item) bool) {
	if g := t.staged.groups[string(name)]; g != nil && !fn(g.items) {
		return
	}
	if t.active != nil {
		t.mu.RLock()
		items := t.active.at(name, t.view.version)
		t.mu.RUnlock()
		if len(items) > 0 && !fn(items) {
			return
		}
	}
	for _, f := range t.frozen {
		if g := f[string(name)]; g != nil && !fn(g.items) {
			return
		}
	}
}

// Get returns the value of a key whose first group bytes name its group, or nil. It must not be
// changed, nor used after the view has ended.
func (t *Table) Get(key []byte, group int) (value []byte) {
	known := false
	t.changed(key[:group], func(items []item) bool {
		var at int
		if at, known = find(items, key); known {
			value = items[at].value
		}
		return !known
	})
	if known {
		return value
	}
	return t.bucket.Get(key)
}

// Put changes the value of a key, or removes the key if value is nil. The view keeps value.
func (t *Table) Put(key []byte, group int, value []byte) {
	g := t.staged.groups[string(key[:group])]
	name := string(key)
	if g == nil {
		g = t.staged.add(name[:group])
	}
	if at, ok := find(g.items, key); ok {
		g.items[at].value = value
	} else {
		g.items = slices.Insert(g.items, at, item{name, value})
	}
}

// Groups returns the names of the groups with changes, in order, from a name on.
func (t *Table) Groups(from []byte) []string {
	names := make(map[string]bool)
	add := func(g groups) {
		for name := range g {
			if name >= string(from) {
				names[name] = true
			}
		}
	}
	add(t.staged.groups)
	if t.active != nil {
		t.mu.RLock()
		add(t.active)
		t.mu.RUnlock()
	}
	for _, g := range t.frozen {
		add(g)
	}
	return slices.Sorted(maps.Keys(names))
}

// Stored returns a cursor over the file alone.
func (t *Table) Stored() *bbolt.Cursor { return t.bucket.Cursor() }
