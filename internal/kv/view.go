package kv

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// View runs fn on all changes of some tables that are durable, or acknowledged. It waits for no
// flush.
func (d *DB) View(fn func(tx *Tx) error, tables ...*Table) error {
	tx := &Tx{db: d, Time: NoTime}
	defer tx.Rest()
	if err := d.begin(tx, tables); err != nil {
		return err
	}
	return d.file.Guard(func() error {
		for _, t := range tables { // a table that was lost is no empty one
			if _, err := tx.bucket(t); err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// begin takes the layers of a view and begins to read the file, both at one moment: otherwise a
// checkpoint between the two would show some changes and hide older ones.
func (d *DB) begin(tx *Tx, tables []*Table) error {
	if d.options.Mode == Commit { // there is no memtable
		return tx.read()
	}
	d.lockMemtable()
	defer d.unlockMemtable()
	if d.closed.Load() {
		return store.ErrClosed
	}
	tx.base = append(tx.base, d.active.snapshot(tables))
	if d.frozen != nil {
		tx.base = append(tx.base, d.frozen)
	}
	return tx.read()
}

// Stored runs fn on the file alone. After a [DB.Checkpoint], the file has all changes from before
// that. To walk many keys so costs the writers nothing: no order is made of the memtable.
func (d *DB) Stored(fn func(tx *Tx) error) error {
	if d.closed.Load() {
		return store.ErrClosed
	}
	tx := &Tx{db: d, Time: NoTime}
	defer tx.Rest()
	if err := tx.read(); err != nil {
		return err
	}
	return d.file.Guard(func() error { return fn(tx) })
}

// Read is [DB.View] for fn that takes microseconds, and reads no key but by Get. Changes wait for
// fn.
func (d *DB) Read(fn func(tx *Tx) error) error {
	if d.options.Mode == Commit {
		return d.View(fn)
	}
	tx := &Tx{db: d, Time: NoTime}
	d.rlockMemtable()
	defer d.runlockMemtable()
	if d.closed.Load() {
		return store.ErrClosed
	}
	if err := d.file.Usable(); err != nil {
		return err
	}
	tx.base = d.layers(make([]*layer, 0, 3))
	defer tx.Rest()
	return d.file.Guard(func() error { return fn(tx) })
}

// Get calls fn with the newest value of key, or nil. fn may keep the value no longer than it runs.
func (d *DB) Get(t *Table, key string, fn func(value []byte) error) error {
	if v, ok := d.remembered(t, key); ok {
		if err := d.file.Usable(); err != nil {
			return err
		}
		return fn(v)
	}
	// The file is read later than the memtable. That is as if the call had come later.
	tx := Tx{db: d}
	defer tx.Rest()
	v, err := tx.stored(t, key)
	if err != nil {
		return err
	}
	return fn(v)
}

// remembered returns the value of key in the memtable.
func (d *DB) remembered(t *Table, key string) (v []byte, ok bool) {
	if d.options.Mode == Commit {
		return nil, false
	}
	d.rlockMemtable()
	defer d.runlockMemtable()
	v, ok = d.active.get(t, key)
	for _, l := range [...]*layer{d.frozen, d.clean} {
		if !ok && l != nil {
			v, ok = l.get(t, key)
		}
	}
	return v, ok
}

// Snapshot begins a snapshot of the file that has all changes before the call.
func (d *DB) Snapshot(ctx context.Context) (s *boltfile.Snapshot, err error) {
	err = d.whole(ctx, func() (err error) { s, err = d.file.Snapshot(); return err })
	return s, err
}

// Compact makes a [DB.Checkpoint] and rewrites the file without unused pages. It returns the size
// of the file in bytes before and after.
func (d *DB) Compact(ctx context.Context) (before, after int64, err error) {
	err = d.whole(ctx, func() (err error) { before, after, err = d.file.Compact(ctx); return err })
	return before, after, err
}

// Verify checks the file, which has all durable changes.
func (d *DB) Verify(ctx context.Context) error {
	if err := d.Checkpoint(ctx); err != nil {
		return err
	}
	return d.file.Verify(ctx)
}

// Size returns the bytes of the file and of the log.
func (d *DB) Size() (size int64, err error) {
	files := []string{d.file.Path()}
	if d.options.Mode == Log {
		files = append(files, d.logPath())
	}
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, boltfile.Failed(err.Error(), err)
		}
	}
	return size, nil
}
