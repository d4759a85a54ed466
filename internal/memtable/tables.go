package memtable

import (
	"sync"

	"go.etcd.io/bbolt"
)

// Tables holds the changes that a file does not have yet. Any number of goroutines may use views at
// once; one at a time calls Publish, and one at a time Hold.
type Tables struct {
	// gate is held for reading while a view begins, so that its transaction and its changes belong
	// together.
	gate sync.RWMutex

	mu      sync.RWMutex
	active  layer
	frozen  []layer // those that Freeze has taken, oldest first; nobody changes them
	version uint64  // of the newest changes
	views   map[uint64]int
}

// New returns tables without changes.
func New() *Tables {
	return &Tables{active: make(layer), views: make(map[uint64]int)}
}

// File begins read transactions. It is a *boltfile.File.
type File interface {
	View(fn func(tx *bbolt.Tx) error) error
}

// View runs fn on a view of the newest changes. fn may change the view; see [View.Changes].
func (t *Tables) View(file File, fn func(v *View) error) error {
	t.gate.RLock()
	open := sync.OnceFunc(t.gate.RUnlock)
	defer open()
	return file.View(func(tx *bbolt.Tx) error {
		v := t.begin(tx)
		open()
		defer t.end(v)
		return fn(v)
	})
}

func (t *Tables) begin(tx *bbolt.Tx) *View {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.views[t.version]++
	return &View{tx: tx, tables: t, active: t.active, frozen: t.frozen, version: t.version}
}

func (t *Tables) end(v *View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.views[v.version]--; t.views[v.version] == 0 {
		delete(t.views, v.version)
	}
}

// Publish shows changes to all views that begin later. Nobody may use them afterwards.
func (t *Tables) Publish(c *Changes) {
	c.pack()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	oldest := t.version
	for version := range t.views {
		oldest = min(oldest, version)
	}
	for _, changed := range c.tables {
		all := t.active.of(changed.table)
		for _, g := range changed.list {
			g.version = t.version
			if was := all[g.name]; was != nil {
				g.items, g.before = merge(was.items, g.items), was
				forget(g, oldest)
			}
			all[g.name] = g
		}
	}
}

// forget drops the versions of a group that no view from oldest on needs.
func forget(v *group, oldest uint64) {
	for ; v != nil; v = v.before {
		if v.version <= oldest {
			v.before = nil
		}
	}
}

// Held are tables of which no view begins: each view has both its transaction and its changes, or
// neither.
type Held struct{ t *Tables }

// Hold keeps views from beginning until Release.
func (t *Tables) Hold() Held {
	t.gate.Lock()
	return Held{t}
}

// Release lets views begin again.
func (h Held) Release() { h.t.gate.Unlock() }

// Frozen are the changes up to a [Held.Freeze].
type Frozen []layer

// Freeze returns all changes so far, including those that were frozen before and not dropped. They
// stay visible until [Held.Drop].
func (h Held) Freeze() Frozen {
	t := h.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.active) > 0 {
		t.frozen = append(t.frozen[:len(t.frozen):len(t.frozen)], t.active)
		t.active = make(layer)
	}
	return t.frozen
}

// Drop removes changes from memory that the file has. A view that had begun its transaction before
// the file had them, and looked for changes in memory after Drop, would miss them.
func (h Held) Drop(f Frozen) {
	t := h.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = t.frozen[len(f):]
}

// Restore takes the changes in the output of [Changes.Append] into memory.
func (t *Tables) Restore(body []byte) error {
	c, err := Read(body)
	if err == nil {
		t.Publish(c)
	}
	return err
}
