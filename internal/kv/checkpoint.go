package kv

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// checkpointBatch is the number of changes that one commit of a checkpoint writes to the file.
// Others who use the file wait no longer than that.
const checkpointBatch = 16_384

// Checkpoint makes the file hold all changes that were made before the call.
func (d *DB) Checkpoint(ctx context.Context) error { return d.whole(ctx, d.file.Usable) }

// whole makes a checkpoint, and runs fn before the next one, which may have a transaction in two
// of its commits.
func (d *DB) whole(ctx context.Context, fn func() error) error {
	if d.options.Mode == Log {
		if err := d.checkpoint.lock(ctx); err != nil {
			return err
		}
		defer d.checkpoint.unlock() // nobody waits for the file with the memtable locked
		if d.finished {
			return store.ErrClosed
		}
		if err := d.move(true); err != nil {
			return err
		}
	}
	return fn()
}

// move writes the memtable to the file. If keep is false, the file needs the log no more. The
// caller holds d.checkpoint.
func (d *DB) move(keep bool) (err error) {
	for again := true; again && err == nil; {
		d.lockMemtable()
		again = d.frozen != nil // of a checkpoint that failed: the newer changes follow it
		if !again {
			d.frozen, d.frozenEnd, d.frozenTime = d.active, d.end, d.time
			d.active = new(layer)
		}
		l, end, at := d.frozen, d.frozenEnd, d.frozenTime
		d.unlockMemtable()
		last := keep || again
		if p := d.released.Load(); l.n > 0 || !last || p != nil && *p != end {
			err = d.save(l, end, at, last)
		}
		if err == nil {
			d.lockMemtable()
			if l.n > 0 {
				d.clean = l
			}
			d.frozen = nil
			d.unlockMemtable()
			d.release(end)
		}
	}
	return err
}

// save writes a layer to the file, and the watermark in the last commit. A kill between two of its
// commits does no harm, because the log has all changes.
func (d *DB) save(l *layer, end position, at int64, keep bool) error {
	list := l.all()
	for more := true; more; {
		part := list[:min(checkpointBatch, len(list))]
		list = list[len(part):]
		more = len(list) > 0
		err := d.commit(func(btx *bbolt.Tx) error {
			err := write(btx, part, at)
			if err == nil && !more {
				err = d.putWatermark(btx, end, keep)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// release lets the log use the room before p again.
func (d *DB) release(p position) {
	if d.id.Load() != nil {
		d.released.Store(&p)
	}
}

// placeEvery is how often a database looks whether its files are still in their place.
const placeEvery = time.Second

// run makes checkpoints when a segment of the log is full, and looks after the place of the files,
// until the database is closed.
func (d *DB) run() {
	tick := time.NewTicker(placeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = d.InPlace(context.Background()) // the file refuses all work if it is not
			continue
		case <-d.wake:
		case <-d.stop:
			return
		}
		if err := d.Checkpoint(context.Background()); err != nil {
			d.asked.Store(0)
			d.options.Logger.Error("bolt: acknowledged changes could not be written to the file", "error", err)
		}
	}
}

// runSync syncs the log at intervals, until the database is closed.
func (d *DB) runSync() {
	tick := time.NewTicker(d.options.SyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-d.stop:
			return
		}
		_ = d.Sync(context.Background()) // after an error, the file refuses all work
	}
}

// Sync makes all changes durable that were made before the call. If it fails, they may be lost, and
// the file refuses all further work.
func (d *DB) Sync(ctx context.Context) error {
	if err := d.syncing.lock(ctx); err != nil {
		return err
	}
	defer d.syncing.unlock()
	if d.closed.Load() {
		return store.ErrClosed
	}
	return d.sync()
}

// sync is Sync for a caller that holds d.syncing.
func (d *DB) sync() error {
	d.rlockMemtable()
	log, end := d.log, d.end.number
	d.runlockMemtable()
	if log == nil || d.unsynced != nil {
		return d.unsynced
	}
	if err := log.sync(end); err != nil {
		msg := fmt.Sprintf("the journal could not be synced (%v), so acknowledged changes may not last; "+
			"close the store and open it again", err)
		d.options.Logger.Error("bolt: " + msg)
		d.file.Refuse(msg)
		d.unsynced = boltfile.Misconfigured(msg, err)
	}
	return d.unsynced
}

// Close writes all changes to the file, removes the log and closes the file.
func (d *DB) Close() error {
	_ = d.writer.lock(context.Background())
	closed := d.closed.Swap(true)
	d.writer.unlock() // a write may take long, and callers who wait for the lock are refused meanwhile
	if closed {
		return nil
	}
	close(d.stop)
	d.background.Wait()
	if d.options.Mode == Commit {
		return d.file.Close()
	}
	err := d.finish()
	if cerr := d.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// finish writes all changes to the file and removes the log. If it fails, or if the file refuses
// all work, the log stays, and the next Open needs it.
func (d *DB) finish() error {
	_ = d.checkpoint.lock(context.Background())
	defer d.checkpoint.unlock()
	_ = d.syncing.lock(context.Background()) // nobody syncs the log while it is closed
	defer d.syncing.unlock()
	d.finished = true
	refuses := d.file.Usable() != nil
	var err error
	if refuses {
		err = d.sync() // then all decisions are durable, or their callers know
	} else {
		err = d.move(d.log == nil)
	}
	switch {
	case d.log == nil:
		return err
	case err != nil, refuses:
		_ = d.log.close()
		return err
	}
	return d.log.remove()
}
