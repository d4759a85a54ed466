package kv

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/invariant"
	"github.com/brimgo/brim/store"
)

// Update runs fn, and makes its changes durable as the [Mode] says. An error of fn drops them and
// is returned as it is; a panic of fn drops them and goes on. If the error is
// [store.ErrUnknownOutcome], the changes may be durable; after any other they are not. The caller
// holds the lock of [DB.Lock].
func (d *DB) Update(fn func(tx *Tx) error) error {
	tx := &d.tx
	defer tx.reset()
	if d.options.Mode == Commit {
		return d.file.Update(func(btx *bbolt.Tx) (bool, error) {
			tx.btx = btx
			err := fn(tx)
			if err == nil {
				err = tx.check()
			}
			if err != nil || tx.none() {
				return false, err
			}
			return true, d.file.Guard(func() error { return write(btx, tx.sorted(), tx.Time) })
		})
	}
	if err := d.decide(tx, fn); err != nil {
		return err
	}
	// After a commit of unknown outcome memory has the old state, and the file may have the new
	// one. So a call that would change nothing in memory has no answer, either.
	if err := d.file.Usable(); err != nil || tx.none() {
		return err
	}
	if err := tx.check(); err != nil {
		return err
	}
	return d.keep(tx)
}

// decide runs fn on the memtable, and on the file below it.
func (d *DB) decide(tx *Tx, fn func(tx *Tx) error) error {
	d.rlockMemtable()
	tx.base = d.layers(tx.base[:0])
	d.runlockMemtable()
	// The file may be read later than the memtable: nobody else changes the newest state.
	defer tx.Rest()
	return fn(tx)
}

// layers appends the layers of the memtable to base, the newest first. The caller holds mu.
func (d *DB) layers(base []*layer) []*layer {
	base = append(base, d.active)
	if d.frozen != nil {
		base = append(base, d.frozen)
	}
	if d.clean != nil {
		base = append(base, d.clean)
	}
	return base
}

// keep appends the changes of tx to the log, and shows them to others then.
func (d *DB) keep(tx *Tx) error {
	if d.log == nil {
		return d.start(tx)
	}
	d.body = appendChanges(d.body[:0], tx.own.list, tx.Time)
	err := d.append()
	if errors.Is(err, errFull) {
		if err = d.Checkpoint(context.Background()); err != nil {
			return boltfile.Failed(fmt.Sprintf("the journal is full, and the file could not be written: %v", err), err)
		}
		err = d.append()
	}
	switch {
	case err == nil:
		d.publish(tx)
		// Once of each segment. Changes go on while run writes, and if they told it again, it would
		// write a second time for the few changes that came meanwhile.
		if g := d.log.end.generation; d.log.unreleased() && d.asked.Swap(g) != g {
			select {
			case d.wake <- struct{}{}:
			default: // run has not taken the word before
			}
		}
		return nil
	case errors.Is(err, errUnsure):
		d.file.Refuse(fmt.Sprintf("the journal failed earlier (%v); close the store and open it again", err))
		return boltfile.Unsure(fmt.Sprintf("the journal failed when the change was written but not yet known to last: %v", err), err)
	}
	return d.straight(tx, nil) // nothing was appended: the disk is full, or the change is larger than a segment
}

func (d *DB) append() error {
	if p := d.released.Load(); p != nil {
		d.log.released = *p
	}
	return d.log.append(d.body)
}

// publish shows the changes of tx to others.
func (d *DB) publish(tx *Tx) {
	d.lockMemtable()
	defer d.unlockMemtable()
	for _, c := range tx.own.list {
		d.active.put(c.table, c.key, c.value)
	}
	d.pass(tx.Time)
	if d.log != nil {
		invariant.Assert(d.end.number < d.log.end.number, "a frame has no higher number than the one before")
		d.end = d.log.end
	}
}

// pass notes the time of a change. The caller holds mu.
func (d *DB) pass(time int64) {
	if time != NoTime {
		d.time = time
	}
}

// start commits changes while there is no log. The first change goes straight to the file, so a
// program that changes one value and ends makes no log. The second begins the log.
func (d *DB) start(tx *Tx) error {
	if !d.began || d.without {
		d.began = true
		return d.straight(tx, nil)
	}
	log, err := createLog(d.fs, d.logPath(), d.options.Segment, d.file.Resemble)
	if err != nil {
		d.without = true
		d.options.Logger.Warn("bolt: no journal could be made; each commit goes straight to the file", "error", err)
		return d.straight(tx, nil)
	}
	err = d.straight(tx, &watermark{id: log.id, position: log.end, inUse: true})
	switch {
	case err == nil:
		log.lazy = d.options.SyncEvery > 0
		d.id.Store(&log.id)
		d.lockMemtable()
		d.log, d.end = log, log.end
		d.unlockMemtable()
		d.release(log.end)
	case errors.Is(err, store.ErrUnknownOutcome): // the file may refer to the log
		_ = log.close()
	default:
		if rerr := log.remove(); rerr != nil {
			d.options.Logger.Warn("bolt: an empty journal could not be removed", "error", rerr)
		}
	}
	return err
}

// straight commits the changes of tx to the file, with all changes that the file does not have yet,
// and with the watermark begins if it is not nil. Views wait meanwhile: one that began between the
// commit and its end would see new values in the file beside older ones in memory.
func (d *DB) straight(tx *Tx, begins *watermark) error {
	_ = d.checkpoint.lock(context.Background()) // a context that does not end fails no lock
	defer d.checkpoint.unlock()
	d.lockMemtable()
	defer d.unlockMemtable()
	time := d.time
	if tx.Time != NoTime {
		time = tx.Time
	}
	err := d.commit(func(btx *bbolt.Tx) error {
		lists := make([][]change, 0, 3)
		if d.frozen != nil {
			lists = append(lists, d.frozen.all())
		}
		for _, list := range append(lists, d.active.all(), tx.sorted()) {
			if err := write(btx, list, time); err != nil {
				return err
			}
		}
		if begins != nil {
			return putWatermark(d.first(), btx, *begins)
		}
		return d.putWatermark(btx, d.end, true)
	})
	if err == nil {
		d.frozen, d.clean, d.active, d.time = nil, nil, new(layer), time
		d.release(d.end)
	}
	return err
}

// commit runs fn in one durable commit of the file.
func (d *DB) commit(fn func(btx *bbolt.Tx) error) error {
	if err := d.file.Lock(context.Background()); err != nil {
		return err
	}
	defer d.file.Unlock()
	return d.file.Update(func(btx *bbolt.Tx) (bool, error) {
		return true, d.file.Guard(func() error { return fn(btx) })
	})
}

// Within runs fn in a transaction of the application, and puts its changes in.
func (d *DB) Within(btx *bbolt.Tx, writes bool, fn func(tx *Tx) error) error {
	return d.file.Within(btx, writes, func() error {
		tx := &Tx{db: d, btx: btx, Time: NoTime}
		err := fn(tx)
		if err == nil {
			err = tx.check()
		}
		if err == nil && writes && !tx.none() {
			err = write(btx, tx.sorted(), tx.Time)
		}
		return err
	})
}
