package kv

import (
	"context"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// checkpointBatch is the number of changes that one commit of a checkpoint writes to the file.
// Others who use the file wait no longer than that.
const checkpointBatch = 16_384

// Checkpoint makes the file hold all changes that were made before the call. In mode Window, a
// failed checkpoint refuses changes until a later one succeeds.
func (d *DB) Checkpoint(ctx context.Context) error {
	if d.options.Mode == Commit {
		return d.file.Usable()
	}
	if err := d.checkpoint.lock(ctx); err != nil {
		return err
	}
	defer d.checkpoint.unlock()
	if d.finished {
		return store.ErrClosed
	}
	return d.move()
}

// move is Checkpoint for a caller that holds d.checkpoint.
func (d *DB) move() error {
	if d.options.Mode == Window {
		return d.write()
	}
	_, err := d.moveTo(true)
	return err
}

// moveTo writes the memtable to the file, and returns the number of its changes. If keep is false,
// the file needs the log no more.
func (d *DB) moveTo(keep bool) (n int, err error) {
	for again := true; again && err == nil; {
		d.lockMemtable()
		again = d.frozen != nil // of a checkpoint that failed: the newer changes follow it
		if !again {
			d.frozen, d.frozenEnd, d.frozenTime = d.active, d.end, d.time
			d.active = new(layer)
		}
		l, end, at := d.frozen, d.frozenEnd, d.frozenTime
		d.unlockMemtable()
		n += l.n
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
	return n, err
}

// save writes a layer to the file, and the watermark in the last commit. A crash between two of its
// commits does no harm, because the log has all changes; without a log there is one commit.
func (d *DB) save(l *layer, end position, at int64, keep bool) error {
	list, size := l.all(), checkpointBatch
	if d.options.Mode == Window {
		size = math.MaxInt
	}
	for more := true; more; {
		part := list[:min(size, len(list))]
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

// run makes checkpoints until the database is closed: when a segment of the log is full, or once in
// a window.
func (d *DB) run() {
	defer close(d.stopped)
	var tick <-chan time.Time
	if d.options.Mode == Window {
		t := time.NewTicker(d.options.Window)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-d.wake:
		case <-tick:
		case <-d.stop:
			return
		}
		if err := d.Checkpoint(context.Background()); err != nil {
			d.asked.Store(0)
			d.options.Logger.Error("bolt: acknowledged changes could not be written to the file", "error", err)
		}
	}
}

// stall makes changes of mode Window wait for a slow write, or refuses them after a failed one.
type stall struct {
	over chan struct{} // closed when the stall is over
	err  error         // for changes; nil after a slow write
}

// write is moveTo of a window. If it takes longer than a window, changes wait; if it fails, they
// are refused until a later write succeeds. So a crash loses at most two windows on a slow disk,
// too.
func (d *DB) write() error {
	start, over := time.Now(), make(chan struct{})
	var slow *stall
	timer := time.AfterFunc(d.options.Window, func() {
		slow = &stall{over: make(chan struct{})}
		d.stalled.CompareAndSwap(nil, slow)
		close(over)
	})
	n, err := d.moveTo(true)
	if !timer.Stop() {
		<-over
	}
	d.resume(err)
	if slow != nil {
		close(slow.over)
	}
	d.wrote(n, start, err)
	return err
}

// resume lets changes go on after a write, unless it failed with err.
func (d *DB) resume(err error) {
	if err == nil {
		d.stalled.Store(nil)
		return
	}
	d.stalled.Store(&stall{err: boltfile.Failed(fmt.Sprintf("acknowledged changes could not be written: %v", err), err)})
}

// wrote tells the owner of a write of a window.
func (d *DB) wrote(n int, start time.Time, err error) {
	if tell := d.options.Wrote; tell != nil && n > 0 {
		tell(n, time.Since(start), err)
	}
}

// Close writes all changes to the file, removes the log and closes the file.
func (d *DB) Close() error {
	_ = d.writer.lock(context.Background())
	closed := d.closed.Swap(true)
	d.writer.unlock() // a write may take long, and callers who wait for the lock are refused meanwhile
	switch {
	case closed:
		return nil
	case d.options.Mode == Commit:
		return d.file.Close()
	}
	close(d.stop)
	<-d.stopped
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
	d.finished = true
	if err := d.file.Usable(); err != nil {
		switch {
		case d.log != nil:
			return d.log.close()
		case d.options.Mode == Window:
			return err
		}
		return nil // all decisions are durable, or their callers know
	}
	start := time.Now()
	n, err := d.moveTo(d.log == nil)
	if d.options.Mode == Window {
		d.wrote(n, start, err)
	}
	switch {
	case d.log == nil:
		return err
	case err != nil:
		_ = d.log.close()
		return err
	}
	return d.log.remove()
}
