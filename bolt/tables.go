package bolt

import (
	"context"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/store"
)

func init() {
	memtable.PartsOf = func(store any) memtable.Parts {
		s := store.(*Store)
		return memtable.Parts{File: s.file, Tables: s.tables(), Clock: s.clock}
	}
}

// tables returns the writer of tables that other packages of this module keep beside the buckets.
func (s *Store) tables() memtable.Writer {
	if s.logged != nil {
		return (*loggedTables)(s.logged)
	}
	return (*fileTables)(s.file)
}

// fileTables writes tables without a journal: each update is a commit of the file.
type fileTables boltfile.File

func (t *fileTables) file() *boltfile.File { return (*boltfile.File)(t) }

func (t *fileTables) Lock(ctx context.Context) error { return t.file().Lock(ctx) }
func (t *fileTables) Unlock()                        { t.file().Unlock() }
func (t *fileTables) Sync(context.Context) error     { return t.file().Usable() }

func (t *fileTables) View(fn func(v *memtable.View) error) error {
	return t.file().View(func(tx *bbolt.Tx) error { return fn(memtable.NewView(tx)) })
}

func (t *fileTables) Update(fn func(v *memtable.View) error) error {
	return t.file().Update(func(tx *bbolt.Tx) (changed bool, err error) {
		err = t.file().Guard(func() error {
			v := memtable.NewView(tx)
			if err := fn(v); err != nil {
				return err
			}
			c := v.Changes()
			changed = !c.None()
			return c.Write(tx)
		})
		return changed, err
	})
}

// tablesRegions is the factor by which a region of the journal is larger if tables may change. The
// values of tables are many times as large as the changes of buckets. In a larger region, one write
// to the file has more of these values, and so writes fewer pages for each.
const tablesRegions = 4

// loggedTables writes tables with the journal of a store.
type loggedTables logged

func (t *loggedTables) Lock(ctx context.Context) error {
	if err := t.mem.lock(ctx); err != nil {
		return err
	}
	if t.s.closed.Load() { // the journal may be gone
		t.mem.unlock()
		return store.ErrClosed
	}
	if t.region == 0 {
		t.region = tablesRegions * journal.DefaultRegion
	}
	return nil
}

func (t *loggedTables) Unlock()                        { t.mem.unlock() }
func (t *loggedTables) Sync(ctx context.Context) error { return (*logged)(t).sync(ctx) }
func (t *loggedTables) View(fn func(v *memtable.View) error) error {
	return t.tables.View(t.s.file, fn)
}

func (t *loggedTables) Update(fn func(v *memtable.View) error) error {
	var c tableChanges
	err := t.View(func(v *memtable.View) error {
		err := fn(v)
		c = tableChanges{(*logged)(t), v.Changes()}
		return err
	})
	if err != nil {
		return err
	}
	return c.l.keep(&c)
}

// tableChanges are changes of tables.
type tableChanges struct {
	l *logged
	*memtable.Changes
}

func (c *tableChanges) none() bool             { return c.None() }
func (c *tableChanges) append(b []byte) []byte { return c.Append(append(b, ofTables)) }

func (c *tableChanges) write(to *view) error {
	to.wrote = true
	return c.l.s.file.Guard(func() error { return c.Write(to.records.Tx()) })
}

func (c *tableChanges) publish(logged bool) {
	if logged {
		c.l.tables.Publish(c.Changes)
	}
}

// tablesOf returns the changes of tables in the body of a frame; ok is false if it has those of
// buckets.
func tablesOf(body []byte) (changes []byte, ok bool) {
	if len(body) == 0 || body[0]&ofTables == 0 {
		return nil, false
	}
	return body[1:], true
}

// tablesBatch is the number of values of tables that one commit writes to the file. It is larger
// than writeBatch, because a commit writes each page that it touches only once.
const tablesBatch = 1 << 16

// commitTables writes changes of tables in commits of tablesBatch values.
func (l *logged) commitTables(f memtable.Frozen) error {
	for _, put := range f.Parts(tablesBatch) {
		if err := l.s.file.Lock(context.Background()); err != nil {
			return err
		}
		err := l.s.file.Update(func(tx *bbolt.Tx) (bool, error) {
			return true, l.s.file.Guard(func() error { return put(tx) })
		})
		l.s.file.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// putTables puts changes of tables into the transaction of v.
func (l *logged) putTables(v *view, f memtable.Frozen) error {
	return l.s.file.Guard(func() error {
		for _, put := range f.Parts(tablesBatch) {
			v.wrote = true
			if err := put(v.records.Tx()); err != nil {
				return err
			}
		}
		return nil
	})
}
