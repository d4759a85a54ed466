package boltfile

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

// View runs fn in a read-only transaction on the newest commit. It does not wait for a commit
// under way. A panic of fn is an error that is [store.ErrCorrupt]. Keep fn short: until it
// returns, bbolt cannot use freed pages again.
func (f *File) View(fn func(tx *bbolt.Tx) error) error {
	tx, end, err := f.Read()
	if err != nil {
		return err
	}
	defer end()
	return f.Guard(func() error { return fn(tx) })
}

// Read begins a read-only transaction on the newest commit, which the caller ends with end. The
// caller uses [File.Guard] where it reads pages.
func (f *File) Read() (tx *bbolt.Tx, end func(), err error) {
	f.rlock()
	err = f.Usable()
	if f.closed {
		err = store.ErrClosed
	}
	if err == nil {
		tx, err = f.begin(false)
	}
	if err != nil {
		f.runlock()
		return nil, nil, err
	}
	return tx, func() { f.rollback(tx); f.runlock() }, nil
}

// Update runs fn in a writable transaction, and commits it durably if fn reports a change. The
// caller holds the lock of [File.Lock].
//
// An error of fn rolls back and is returned as it is. A panic of fn rolls back and goes on,
// because fn may run code of an application: fn calls [File.Guard] where it uses pages. A fault
// in the memory of a page is a panic while fn runs.
//
// If the error is [store.ErrUnknownOutcome], the transaction may have been committed. After any
// other error it was not.
func (f *File) Update(fn func(tx *bbolt.Tx) (changed bool, err error)) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// Not by rlock: fn may read, which locks mu again. That cannot wait for ever, because whoever
	// waits to lock mu exclusively holds the lock of Lock.
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return store.ErrClosed
	}
	if err := f.Usable(); err != nil {
		return err
	}
	tx, err := f.begin(true)
	if err != nil {
		return err
	}
	defer f.rollback(tx) // does nothing after a commit
	changed, err := fn(tx)
	if err != nil || !changed {
		return err
	}
	return f.commit(tx)
}

// Within runs fn, which uses tx, a transaction that the application began and will end. It
// refuses a transaction that has ended or belongs to another database, and for fn that writes a
// read-only one. A panic of fn is an error that is [store.ErrCorrupt]. Roll tx back after an
// error.
func (f *File) Within(tx *bbolt.Tx, writes bool, fn func() error) error {
	f.rlock()
	defer f.runlock()
	if f.closed {
		return store.ErrClosed
	}
	if err := f.Usable(); err != nil {
		return err
	}
	switch {
	case tx == nil, tx.DB() == nil:
		return fmt.Errorf("%w: the transaction has ended", store.ErrClosed)
	case f.owned || tx.DB() != f.db:
		return Misconfigured("the transaction belongs to another database than the one given to New", nil)
	case writes && !tx.Writable():
		return Misconfigured("the transaction is read-only; begin a writable transaction, with Update or Begin(true)",
			berrors.ErrTxNotWritable)
	}
	return f.Guard(fn)
}

// Guard calls fn, which uses pages of the database. A panic of bbolt, or a fault in its memory,
// is logged and returned as an error that is [store.ErrCorrupt].
func (f *File) Guard(fn func() error) error {
	err := guard(fn)
	if isPanic(err) {
		return f.damaged(err)
	}
	return err
}

// begin starts a transaction. A panic there leaves bbolt's locks locked.
func (f *File) begin(writable bool) (tx *bbolt.Tx, err error) {
	err = guard(func() (err error) { tx, err = f.db.Begin(writable); return err })
	switch {
	case err == nil:
		return tx, nil
	case isPanic(err):
		return nil, f.stop(err)
	case errors.Is(err, berrors.ErrDatabaseReadOnly):
		return nil, Misconfigured("the database is open for reading only; open it for writing", err)
	}
	return nil, Failed(err.Error(), err)
}

// rollback ends tx if it has not ended. A panic there leaves bbolt's locks locked.
func (f *File) rollback(tx *bbolt.Tx) {
	if tx.DB() == nil {
		return
	}
	if err := guard(tx.Rollback); isPanic(err) {
		_ = f.stop(err)
	}
}

// commit makes tx durable. If bbolt fails, commit finds out whether the meta page was written,
// which makes the other pages count.
func (f *File) commit(tx *bbolt.Tx) error {
	id := tx.ID()
	if f.owned {
		f.db.AllocSize = int(min(max(tx.Size()/4, leastStep), mostStep))
		if err := f.checkFreelist(); err != nil {
			return err
		}
	}
	cause := guard(tx.Commit)
	if cause == nil {
		f.committed = true
		return nil
	}
	f.rollback(tx)
	visible, known := false, false
	if !f.poisoned.Load() {
		if read, err := f.begin(false); err == nil {
			visible, known = read.ID() >= id, true
			f.rollback(read)
		}
	}
	f.options.Logger.Error("bolt: commit failed", "error", cause, "visible", visible)
	if visible || !known {
		f.Refuse(fmt.Sprintf("an earlier commit failed and may or may not last (%v); "+
			"close the store and open it again", cause))
		return Unsure(fmt.Sprintf("the commit failed when it was written but not yet known to last: %v", cause), cause)
	}
	if isPanic(cause) {
		return f.damaged(cause)
	}
	if isDiskFailure(cause) {
		f.Refuse(fmt.Sprintf("the disk failed earlier (%v); close the store and open it again", cause))
	}
	return Failed(fmt.Sprintf("nothing was applied: %v", cause), cause)
}

// checkFreelist checks that the list of free pages ends within the file. A commit frees the pages
// of the list, and the header of a damaged one may claim 2^32 of them, for which bbolt takes
// minutes and gigabytes.
func (f *File) checkFreelist() error {
	m, err := metaOf(f.file)
	if err != nil || m.freelist == noFreelist {
		return err
	}
	var header [pageHeader]byte
	if _, err := f.file.ReadAt(header[:], int64(m.freelist)*int64(m.pageSize)); err != nil {
		return readError(err)
	}
	if overflow := uint64(order.Uint32(header[12:])); overflow >= m.high-m.freelist {
		return Damagef("the list of free pages at page %d ends beyond the last of %d pages", m.freelist, m.high)
	}
	return nil
}

// Refuse makes the file refuse all further work. That does not pass by itself: somebody has to open
// the file again. So the error is [store.ErrMisconfigured].
func (f *File) Refuse(why string) {
	f.broken.CompareAndSwap(nil, &fault{msg: why, causes: []error{store.ErrMisconfigured}})
}

// stop makes the file refuse all further work because bbolt must not be called again, and returns
// err.
func (f *File) stop(err error) error {
	f.poisoned.Store(true)
	f.broken.CompareAndSwap(nil, &fault{
		msg:    fmt.Sprintf("the file is damaged (%v); close the store, and restore the file", err),
		causes: []error{store.ErrCorrupt},
	})
	return f.damaged(err)
}

// damaged logs damage and returns err.
func (f *File) damaged(err error) error {
	f.options.Logger.Error("bolt: stored data is damaged", "error", err)
	return err
}
