package bolt

import (
	"context"

	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/store"
)

// writeBatch is the number of buckets that one commit writes to the file. Others who use the file
// wait no longer than that.
const writeBatch = 16_384

// mark records in the file that the file has all changes up to p. After Close has finished with the
// journal, mark fails: the file would refer to a journal that is gone, or lack changes that Close
// could not write.
func (l *logged) mark(v *view, p journal.Position) error {
	id := l.id.Load()
	switch {
	case l.finished:
		return store.ErrClosed
	case id == nil:
		return nil
	}
	return v.putMark(mark{ID: *id, Position: p, inUse: true})
}

// release lets the journal use the room before p again.
func (l *logged) release(p journal.Position) {
	if l.id.Load() != nil {
		l.released.Store(&p)
	}
}

// writeBack writes all changes to the file that it does not have yet. An Update that runs holds it
// up; writeBack returns the error of ctx if ctx ends before its turn.
func (l *logged) writeBack(ctx context.Context) error {
	if err := l.mem.writing.take(ctx); err != nil {
		return err
	}
	defer l.mem.writing.give()
	return l.writeAll()
}

// writeAll is writeBack for a caller that holds mem.writing. It commits nothing where the file has
// all changes already.
func (l *logged) writeAll() error {
	w := l.gather()
	if w.none() && !l.finished && l.marked(w.end) {
		return nil
	}
	return l.write(w, l.mark)
}

// unwritten are the changes that the file does not have.
type unwritten struct {
	buckets []change
	tables  memtable.Frozen
	end     journal.Position // the journal has no other changes before it
}

func (w *unwritten) none() bool { return len(w.buckets) == 0 && len(w.tables) == 0 }

// marked tells whether a mark in the file says that the file has all changes up to p.
func (l *logged) marked(p journal.Position) bool {
	released := l.released.Load()
	return released != nil && *released == p
}

// gather takes all changes. The caller holds mem.writing.
func (l *logged) gather() unwritten {
	held := l.tables.Hold()
	defer held.Release()
	return l.collect(held)
}

// collect is gather for a caller that lets no view begin meanwhile.
func (l *logged) collect(held memtable.Held) unwritten {
	var w unwritten
	w.buckets, w.end = l.mem.collect(func() { w.tables = held.Freeze() })
	return w
}

// settled ends the write of changes, which failed with err.
func (l *logged) settled(held memtable.Held, w unwritten, err error) {
	l.mem.settled(w.buckets, err)
	if err == nil {
		held.Drop(w.tables)
	}
}

// settle is settled for a caller that has let views begin meanwhile.
func (l *logged) settle(w unwritten, err error) {
	held := l.tables.Hold()
	defer held.Release()
	l.settled(held, w, err)
}

// write writes changes to the file, and adds those of last to the last of the commits. The caller
// holds mem.writing.
func (l *logged) write(w unwritten, last func(*view, journal.Position) error) error {
	err := l.commit(w, func(v *view) error { return last(v, w.end) })
	l.settle(w, err)
	if err == nil {
		l.release(w.end)
	}
	return err
}

// commit writes changes in commits of writeBatch buckets. A crash between two of them does no harm:
// the journal has all changes.
func (l *logged) commit(w unwritten, last func(*view) error) error {
	if err := l.commitTables(w.tables); err != nil {
		return err
	}
	changes := w.buckets
	sortChanges(changes)
	for len(changes) > writeBatch {
		if err := l.mem.commit(changes[:writeBatch], nil); err != nil {
			return err
		}
		changes = changes[writeBatch:]
	}
	return l.mem.commit(changes, last)
}

// finish writes all changes to the file, and notes there that the journal is of no use any more.
func (l *logged) finish() error {
	_ = l.mem.writing.take(context.Background())
	defer l.mem.writing.give()
	err := l.write(l.gather(), func(v *view, p journal.Position) error {
		return v.putMark(mark{ID: *l.id.Load(), Position: p})
	})
	// Also after an error: memory is dropped now, and a mark would say that the file has its changes.
	l.finished = true
	return err
}

// sync makes the file hold all decisions that were acknowledged before the call.
func (l *logged) sync(ctx context.Context) error {
	return l.writeBack(ctx)
}
