package kv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// LogSuffix makes the path of the log from the path of the file.
const LogSuffix = ".journal"

func (d *DB) logPath() string { return d.file.Path() + LogSuffix }

// Open opens the database in the file at path, which it creates if there is none, and replays its
// log. In mode Commit, it writes the content of the log to the file, and removes the log.
func Open(path string, o Options) (*DB, error) {
	if err := orphaned(path); err != nil {
		return nil, err
	}
	fsys := o.FS
	if fsys == nil {
		fsys = vfs.Default
	}
	l := firstTable{boltfile.NewTable(o.Table)}
	file, err := boltfile.Open(path, l, boltfile.Options{
		LockTimeout: o.LockTimeout, FileMode: o.FileMode, NoVerify: o.NoVerify, Logger: o.Logger, FS: fsys,
	})
	if err != nil {
		return nil, err
	}
	d := newDB(file, fsys, o)
	err = d.prepare(l)
	if err == nil {
		err = d.recover()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	d.background.Go(d.run)
	if o.SyncEvery > 0 {
		d.background.Go(d.runSync)
	}
	return d, nil
}

// Join opens the database in an application's database, which it creates if there is none. The mode
// is Commit.
func Join(db *bbolt.DB, o Options) (*DB, error) {
	l := firstTable{boltfile.NewTable(o.Table)}
	file := boltfile.Join(db, l, boltfile.Options{NoVerify: o.NoVerify, Logger: o.Logger})
	d := newDB(file, vfs.Default, o)
	err := d.prepare(l)
	if err == nil {
		err = d.detached()
	}
	if err == nil {
		err = file.CheckBuckets(l.Buckets(), l.NewCheck())
	}
	return d, err
}

func newDB(file *boltfile.File, fsys vfs.FS, o Options) *DB {
	o.Segment = cmp.Or(o.Segment, DefaultSegment)
	d := &DB{
		file: file, fs: fsys, options: o, active: new(layer), time: NoTime,
		writer: newCtxLock(file, rankWriter), checkpoint: newCtxLock(file, rankCheckpoint), syncing: newCtxLock(file, rankSyncing),
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	d.tx = Tx{db: d, Time: NoTime}
	d.tables.Store(new([]*Table))
	d.Table(o.Table)
	return d
}

// prepare checks the first table, or creates it in an application's database, and reads the time of
// the last change.
func (d *DB) prepare(l firstTable) error {
	if err := d.file.MakeDurable(); err != nil {
		return err
	}
	found := false
	look := func(tx *bbolt.Tx) error {
		values, meta, err := l.table.Find(tx)
		if values == nil || err != nil {
			return err
		}
		found = true
		if err := l.checkFormat(meta.Get(formatKey)); err != nil {
			return err
		}
		totals, err := l.table.Totals(meta)
		if totals.Time != 0 {
			d.time = totals.Time
		}
		return err
	}
	if err := d.file.View(look); err != nil || found {
		return err
	}
	if d.file.Owned() {
		return boltfile.Damagef("it is a bbolt file, but its bucket %q is missing; "+
			"to add buckets to an application's database use New", l.table.Name())
	}
	if err := d.file.Lock(context.Background()); err != nil {
		return err
	}
	defer d.file.Unlock()
	return d.file.Update(func(tx *bbolt.Tx) (changed bool, err error) {
		err = d.file.Guard(func() error {
			if err := look(tx); err != nil || found { // another store may have created them by now
				return err
			}
			changed = true
			return l.Create(tx)
		})
		if changed && err != nil {
			err = boltfile.Failed(fmt.Sprintf("creating the buckets: %v", err), err)
		}
		return changed, err
	})
}

// watermark reads the watermark of the log in the file.
func (d *DB) watermark() (m watermark, err error) {
	err = d.file.View(func(tx *bbolt.Tx) error {
		_, meta, err := d.first().find(tx)
		if err == nil {
			m, err = decodeWatermark(d.first().Table, meta.Get(watermarkKey))
		}
		return err
	})
	return m, err
}

// detached returns an error if the file needs a log, which no database of an application has.
func (d *DB) detached() error {
	m, err := d.watermark()
	if err == nil && m.inUse {
		err = boltfile.Misconfigured("the buckets have changes in a journal; open the file with Open and close it, "+
			"which writes them to the file", nil)
	}
	return err
}

// orphaned returns an error if there is a log at path but no file. A new file in its place would be
// empty.
func orphaned(path string) error {
	if _, err := os.Lstat(path + LogSuffix); err != nil {
		return nil // Open finds out why the directory cannot be read
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name := filepath.Base(path) + LogSuffix
	return boltfile.Misconfigured(fmt.Sprintf("the file is missing, but its journal %s is there; put the file back beside it, "+
		"or move the journal away to begin with no buckets", name), fs.ErrNotExist)
}

// recover brings the memtable to the state that the log has.
func (d *DB) recover() error {
	m, err := d.watermark()
	if err != nil {
		return err
	}
	log, err := openLog(d.fs, d.logPath(), false)
	name := filepath.Base(d.logPath())
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.inUse:
		return boltfile.Misconfigured(fmt.Sprintf("its journal %s is missing, which has the last changes; put it back beside the file",
			name), err)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errOld) && !m.inUse: // that version has closed the file, and could not remove the log
		return boltfile.Misconfigured(fmt.Sprintf("the journal %s beside it was written by an earlier version of brim, "+
			"and the file does not need it; move the journal away", name), err)
	case err != nil:
		return explain(err, name)
	case !m.inUse:
		return discard(log, m, name)
	}
	if err := d.replay(log, m, name); err != nil {
		_ = log.close()
		return err
	}
	if d.options.Mode == Log {
		return nil
	}
	if err := d.finish(); err != nil {
		return err
	}
	d.finished, d.log, d.active, d.clean = false, nil, new(layer), nil
	d.id.Store(nil)
	d.released.Store(nil)
	return nil
}

// replay reads the log into the memtable.
func (d *DB) replay(log *wal, m watermark, name string) error {
	if log.id != m.id {
		return boltfile.Misconfigured(fmt.Sprintf("the journal %s is that of another file; put back the journal that was beside this file",
			name), nil)
	}
	frames := 0
	tables := make(map[string]*Table)
	put := func(table, key string, value []byte) error {
		t := tables[table]
		if t == nil {
			t = d.Table(table)
			tables[table] = t
			err := d.file.View(func(tx *bbolt.Tx) error {
				values, _, err := t.Find(tx)
				if values == nil && err == nil {
					err = unknownTable(table)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		d.active.restore(t, key, value)
		return checkRecord(d.options.IsRecord, t.name == d.options.Table, value)
	}
	err := log.replay(m.position, func(body []byte) error {
		frames++
		at, err := readChanges(bytes.Clone(body), put)
		d.pass(at)
		return err
	})
	if err != nil {
		return explain(err, name)
	}
	if frames > 0 {
		d.options.Logger.Info("bolt: the journal was replayed", "commits", frames)
	}
	log.lazy = d.options.SyncEvery > 0
	d.log, d.began, d.end = log, true, log.end
	d.id.Store(&log.id)
	d.release(m.position)
	return nil
}

// discard removes a log that the file does not need. A process may have ended between the commit
// that says so and the removal, or between the making of a log and the commit that refers to it.
// Any other log has changes that nobody may drop.
func discard(log *wal, m watermark, name string) error {
	if log.id != m.id {
		err := log.replay(position{}, func([]byte) error { return nil })
		if err != nil || log.end != log.released {
			_ = log.close()
			return boltfile.Misconfigured(fmt.Sprintf("the journal %s beside it belongs to another file, or to a newer copy of this one; "+
				"put that file back, or move the journal away to go on without its changes", name), err)
		}
	}
	return log.remove()
}

// explain returns an error of the log with the remedy.
func explain(err error, name string) error {
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, errors.ErrUnsupported):
		return err
	case errors.Is(err, errOld):
		return boltfile.Misconfigured(fmt.Sprintf("its journal %s: %v; open the file with that version and close it, "+
			"which moves the journal into the file, and open it with this version then", name, err), err)
	case errors.Is(err, errNewer):
		return boltfile.Misconfigured(fmt.Sprintf("the file is older than its journal %s; put the newest file back, "+
			"or move the journal away to go on with the old one", name), err)
	case errors.Is(err, errNotRegular):
		return boltfile.Misconfigured(fmt.Sprintf("its journal %s: %v; put the journal itself beside the file, or move away what stands there",
			name, err), err)
	case errors.Is(err, errLogDamaged):
		return boltfile.Damagef("its journal %s: %v", name, err)
	}
	return boltfile.Failed(fmt.Sprintf("its journal %s: %v", name, err), err)
}
