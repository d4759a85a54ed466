// Package kv is the storage engine of packages bolt and spend/boltledger: tables of small values in
// a bbolt file, a write-ahead log beside it, and a memtable.
//
// A transaction reads the memtable, and below it the file. Its changes become durable as one frame
// of the log, and then show in the memtable. A checkpoint freezes the memtable, writes it to the
// file in order of key, and records in the last of its commits the position of the log up to which
// the file has all changes. Open replays the log from there. docs/internals/files.md describes log
// and file byte by byte.
//
// The floors, from above: [DB] with its transactions ([Tx], [Cursor]) and checkpoints; the layers
// of the memtable; the log (wal) and its frames; package boltfile, the file that bbolt uses; and
// package vfs, the file system.
package kv

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/invariant"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// Mode says when a change is durable.
type Mode uint8

// The modes.
const (
	Commit Mode = iota // when Update returns; each Update is a commit of the file
	Log                // when Update returns, or see SyncEvery; each Update is a frame of the log
)

// Options are the choices of [Open] and [Join]. They have no defaults but where they say so:
// package bolt documents and fills them.
type Options struct {
	Table       string // the name of the first table, which [DB.Table] has as well
	Mode        Mode
	SyncEvery   time.Duration // of the log; 0 means that each frame is synced before Update returns
	Segment     int64         // of the log, in bytes; 0 means [DefaultSegment]
	LockTimeout time.Duration // how long Open waits for a file that is open elsewhere
	FileMode    fs.FileMode   // of a file that Open creates, before umask
	NoVerify    bool          // check only the meta pages and the size of the file
	Logger      *slog.Logger
	Clock       *clock.Clock // of the store; a ledger in the same file goes by it, too
	FS          vfs.FS       // nil means [vfs.Default]

	IsRecord func(value []byte) bool // whether a value can be one of the first table
}

// DB is an open database. Any number of goroutines may use it at once.
//
// # Locks
//
// A goroutine takes locks in the order in which they stand here, and package invariant checks that:
//
//	writer       of the one goroutine that changes the database; the combiner of a caller holds it
//	checkpoint   of the one goroutine that moves changes to the file
//	syncing      of the one goroutine that syncs the log at intervals
//	mu           of the memtable; a reader holds it for some lookups
//	File.writer  of the one goroutine that commits to the file
//	File.mu      of the file; held to use it, and exclusively to close or replace it
//
// The mutex inside a combiner comes after all of them, because nothing is called under it.
type DB struct {
	file    *boltfile.File
	fs      vfs.FS
	options Options
	tables  atomic.Pointer[[]*Table]
	closed  atomic.Bool

	writer         ctxLock // guards the next four
	tx             Tx
	log            *wal // nil until the second change; written under mu as well
	began, without bool // the database was changed once; no log could be made
	body           []byte

	checkpoint ctxLock // guards finished, and who writes frozen
	finished   bool    // the file needs the log no more
	syncing    ctxLock // guards the next
	unsynced   error   // of the sync after which nobody knows the content of the log on the disk

	mu             sync.RWMutex
	active, frozen *layer // the memtable; frozen is nil if no checkpoint is under way
	clean          *layer // of the last checkpoint: the file has the same; nil if there is none
	time           int64  // of the last change in active, or of those before
	frozenTime     int64
	end, frozenEnd position // of the last change in the layer

	id       atomic.Pointer[logID]
	released atomic.Pointer[position] // the file has all changes before it
	asked    atomic.Uint64            // generation of the log that run was told of; 0 to tell it again
	wake     chan struct{}
	stop     chan struct{}

	background sync.WaitGroup // the goroutines of the database
}

// The ranks of the locks; those of the file follow.
const (
	rankWriter invariant.Rank = iota + 1
	rankCheckpoint
	rankSyncing
	rankMemtable
)

// ctxLock is a lock whose waiters leave when their contexts end.
type ctxLock struct {
	token chan struct{}
	owner any
	rank  invariant.Rank
}

func newCtxLock(owner any, rank invariant.Rank) ctxLock {
	return ctxLock{make(chan struct{}, 1), owner, rank}
}

func (l ctxLock) lock(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil { // select would choose at random
		return err
	}
	if ctx.Done() == nil {
		invariant.Lock(l.owner, l.rank)
	} else { // whoever can leave does not wait for ever
		defer func() {
			if err == nil {
				invariant.Lock(l.owner, l.rank)
			}
		}()
	}
	for range 64 { // most holders need less time than a goroutine needs to wake up
		select {
		case l.token <- struct{}{}:
			return nil
		default:
			runtime.Gosched()
		}
	}
	select {
	case l.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l ctxLock) unlock() {
	<-l.token
	invariant.Unlock(l.owner, l.rank)
}

func (d *DB) lockMemtable() {
	invariant.Lock(d.file, rankMemtable)
	d.mu.Lock()
}

func (d *DB) unlockMemtable() {
	d.mu.Unlock()
	invariant.Unlock(d.file, rankMemtable)
}

func (d *DB) rlockMemtable() {
	invariant.Lock(d.file, rankMemtable)
	d.mu.RLock()
}

func (d *DB) runlockMemtable() {
	d.mu.RUnlock()
	invariant.Unlock(d.file, rankMemtable)
}

// Shared is the database of a bolt.Store, which embeds it under an unexported name. Its method
// belongs to this package, so that the store gets none that its callers see.
type Shared interface{ shared() *DB }

func (d *DB) shared() *DB { return d }

// Of returns the database of a *bolt.Store, for a ledger in the same file and for the programs of
// this repository.
func Of(s Shared) *DB { return s.shared() }

// Updating is a store that an Update of package bolt has given. A ledger shares its transaction.
type Updating interface {
	InUpdate(fn func(*Tx) error) error
}

// Table returns the table of that name. The file need not have it yet.
func (d *DB) Table(name string) *Table {
	d.lockMemtable()
	defer d.unlockMemtable()
	all := *d.tables.Load()
	for _, t := range all {
		if t.name == name {
			return t
		}
	}
	t := &Table{boltfile.NewTable(name), name, len(all)}
	all = append(all[:len(all):len(all)], t)
	d.tables.Store(&all)
	return t
}

// first returns the table whose meta bucket has the format of the file and the watermark of the
// log.
func (d *DB) first() *Table { return (*d.tables.Load())[0] }

// File returns the file of the database.
func (d *DB) File() *boltfile.File { return d.file }

// Time returns the time of the last change, or [NoTime].
func (d *DB) Time() int64 {
	d.rlockMemtable()
	defer d.runlockMemtable()
	return d.time
}

// Clock returns the clock of the store.
func (d *DB) Clock() *clock.Clock { return d.options.Clock }

// SyncEvery returns the interval of syncs, 0 if each change is durable when Update returns.
func (d *DB) SyncEvery() time.Duration { return d.options.SyncEvery }

// InPlace makes the file refuse all further work if another file, or none, has taken its place, or
// that of the log.
func (d *DB) InPlace(ctx context.Context) error {
	if err := d.syncing.lock(ctx); err != nil {
		return err
	}
	defer d.syncing.unlock()
	if d.closed.Load() {
		return store.ErrClosed
	}
	d.rlockMemtable()
	log := d.log
	d.runlockMemtable()
	if log != nil && boltfile.Displaced(log.file, log.path) {
		d.file.Refuse(fmt.Sprintf("the journal %s was removed or replaced while it was open; close the store, and put the journal back", log.path))
	}
	return d.file.InPlace(ctx)
}

// Lock waits until the caller may call Update. Without an error the caller calls Unlock.
func (d *DB) Lock(ctx context.Context) error {
	if err := d.writer.lock(ctx); err != nil {
		return err
	}
	err := error(nil)
	switch {
	case d.closed.Load():
		err = store.ErrClosed
	case d.options.Mode == Commit: // waiters may leave here, too
		err = d.file.Lock(ctx)
	}
	if err != nil {
		d.writer.unlock()
	}
	return err
}

// Unlock lets the next caller of Lock in.
func (d *DB) Unlock() {
	if d.options.Mode == Commit {
		d.file.Unlock()
	}
	d.writer.unlock()
}
