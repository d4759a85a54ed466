package boltfile

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/invariant"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// Options are the choices of [Open]. They have no defaults: the package that opens the file
// documents and fills them.
type Options struct {
	// LockTimeout is how long Open waits for a file that is open elsewhere. Open does not wait if
	// it is negative.
	LockTimeout time.Duration
	// FileMode is the mode of a file that Open creates, before umask.
	FileMode fs.FileMode
	// NoVerify makes Open check the meta pages and the size of the file only, and CheckBuckets
	// nothing.
	NoVerify bool
	// Logger is told of damage, of failed commits and of compactions.
	Logger *slog.Logger
	// FS is the file system of the file; nil means [vfs.Default].
	FS vfs.FS
}

// Layout describes the buckets of the package that opens a [File].
type Layout interface {
	// Create makes the buckets in a database that has none of them.
	Create(tx *bbolt.Tx) error
	// Buckets lists the names of the buckets.
	Buckets() [][]byte
	// NewCheck begins a check of the buckets' content.
	NewCheck() Check
}

// Check judges the content of all buckets of a [Layout]. It is for one goroutine.
type Check interface {
	// Visit is called with every key and value of a bucket in order of key. It may be called for
	// buckets of other packages too, and must not keep its arguments.
	Visit(bucket, key, value []byte)
	// Err returns the first damage for which nobody may use the buckets, or nil. It is called after
	// the last Visit.
	Err() error
	// Damaged returns the number of damaged values that harm nothing but themselves. It is called
	// after Err has returned nil.
	Damaged() int
}

// File is a bbolt database with one writer at a time. Any number of goroutines may use it at
// once.
//
// After an error of a disk, or a panic of bbolt that leaves its locks locked, all methods but
// Close answer the error of Usable.
type File struct {
	options Options
	layout  Layout
	fs      vfs.FS

	owned bool   // opened by Open: Close closes it, Compact replaces it
	given string // the absolute path that was given to Open
	path  string // of the file itself: the absolute path with symbolic links followed

	writer chan struct{} // holds one token while somebody writes; always taken before mu

	mu     sync.RWMutex // held for reading while db is in use, for writing to close or to replace db
	db     *bbolt.DB    // written under writer and mu
	file   vfs.File     // of db, if owned; written under writer and mu
	closed bool         // written under writer and mu

	committed bool // something was committed since the file was opened; guarded by writer

	poisoned atomic.Bool           // a panic left bbolt's locks locked: bbolt must not be called again
	broken   atomic.Pointer[fault] // the reason to refuse all work until the file is opened again
}

// Join returns a File over db, which an application has open. Close leaves db open. The buckets
// of l need not exist yet. Of the options, Join needs NoVerify and the Logger.
func Join(db *bbolt.DB, l Layout, o Options) *File {
	return &File{
		options: o,
		layout:  l,
		fs:      vfs.Default,
		path:    db.Path(),
		writer:  make(chan struct{}, 1),
		db:      db,
	}
}

// Path returns the path of the file. After Open, it is absolute, with symbolic links followed.
func (f *File) Path() string { return f.path }

// Owned reports whether the file was opened by [Open]. The database of a joined File belongs to
// an application, which may have transactions of its own.
func (f *File) Owned() bool { return f.owned }

// Resemble gives another file the owner and the mode of this one. An operator who uses the file as
// root must not lock out the program that owns it.
func (f *File) Resemble(other vfs.File) error {
	f.rlock() // Compact replaces the file
	info, err := f.file.Stat()
	f.runlock()
	if err == nil {
		err = resemble(other, info)
	}
	return err
}

// Usable returns an error that is [store.ErrMisconfigured], or [store.ErrCorrupt], if the file
// refuses all work until it is opened again, and nil otherwise. It takes no lock.
func (f *File) Usable() error {
	if broken := f.broken.Load(); broken != nil {
		return broken
	}
	return nil
}

// InPlace makes the file refuse all further work if another file, or none, has taken its place: the
// next process would not find its changes. It returns the error of Usable.
func (f *File) InPlace(ctx context.Context) error {
	if !f.owned {
		return f.Usable()
	}
	if err := f.Lock(ctx); err != nil { // Compact replaces the file
		return err
	}
	defer f.Unlock()
	if Displaced(f.file, f.path) {
		f.Refuse(fmt.Sprintf("the file at %s was removed or replaced while it was open, and later changes would be lost with it; "+
			"close the store, and put the file back or open the other one", f.path))
	}
	return f.Usable()
}

// Lock waits until no other goroutine writes, or until ctx ends. The caller must call Unlock if
// the error is nil. It may call Update meanwhile.
func (f *File) Lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select would choose at random
		return err
	}
	if ctx.Done() == nil { // whoever can leave does not wait for ever
		invariant.Lock(f, rankWriter)
	}
	select {
	case f.writer <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if ctx.Done() != nil {
		invariant.Lock(f, rankWriter)
	}
	if f.closed {
		f.Unlock()
		return store.ErrClosed
	}
	return nil
}

// Unlock lets the next goroutine write.
func (f *File) Unlock() {
	<-f.writer
	invariant.Unlock(f, rankWriter)
}

// The ranks of the locks of a File, for package invariant. Those of package kv are lower.
const (
	rankWriter invariant.Rank = iota + 100
	rankFile
)

func (f *File) rlock() {
	invariant.Lock(f, rankFile)
	f.mu.RLock()
}

func (f *File) runlock() {
	f.mu.RUnlock()
	invariant.Unlock(f, rankFile)
}

func (f *File) lock() {
	invariant.Lock(f, rankFile)
	f.mu.Lock()
}

func (f *File) unlock() {
	f.mu.Unlock()
	invariant.Unlock(f, rankFile)
}

// Close waits for the writer and the readers, and closes a file that was opened by [Open].
// Another process may lock the file then. Closing twice is allowed.
//
// If anything was committed, Close commits once more without a change, so that both meta pages
// describe the last content. If the disk then loses the newest meta page, or an older one takes its
// place, the file either still has that content or is found damaged.
func (f *File) Close() error {
	invariant.Lock(f, rankWriter)
	f.writer <- struct{}{}
	defer f.Unlock()
	f.lock()
	defer f.unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	switch {
	case !f.owned:
		return nil
	case f.poisoned.Load():
		return f.file.Close() // bbolt would wait for ever; the system's lock goes with the file
	}
	if f.committed && f.Usable() == nil {
		err := f.checkFreelist()
		if err == nil {
			err = guard(func() error { return f.db.Update(func(*bbolt.Tx) error { return nil }) })
		}
		if err != nil {
			// All decisions are durable already.
			f.options.Logger.Warn("bolt: the last commit could not be made twice", "error", err)
		}
	}
	return guard(f.db.Close)
}
