package crash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/lab/internal/disk"
)

// class is a class of calls that can fail.
type class int

const (
	writes  class = iota
	syncs         // of files and of the directory
	names         // link, rename, exchange and remove
	resizes       // truncate
	classes
)

func (c class) String() string { return [...]string{"write", "sync", "rename", "truncate"}[c] }

// fault makes a call fail.
type fault struct {
	class class
	n     int // the call of the class that fails, counted from 1
	errno syscall.Errno
	lasts bool // the later calls of the class fail, too, until the disk is healed
	short bool // a write does its first half
}

func (f fault) String() string {
	how := "once"
	switch {
	case f.lasts:
		how = "and all later ones"
	case f.short:
		how = "after its first half"
	}
	return fmt.Sprintf("%v %d fails %s: %v", f.class, f.n, how, f.errno)
}

// recorder is a file system that records the changes of one directory.
type recorder struct {
	vfs.OS
	mu     sync.Mutex
	events []disk.Event
	files  int
	fault  *fault
	calls  [classes]int
	failed int // calls that failed
	healed bool
	opened map[string]int // numbers of files by name
}

// file is a file of a recorder.
type file struct {
	vfs.File
	r      *recorder
	number int
	size   int64     // as recorded
	db     *bbolt.DB // that writes the file; nil if there is none
}

func (r *recorder) note(e disk.Event) { r.events = append(r.events, e) }

// strike returns the error of a call of a class, or nil. The caller holds mu.
func (r *recorder) strike(c class, op, name string) error {
	r.calls[c]++
	f := r.fault
	if f == nil || f.class != c || r.healed || r.calls[c] < f.n || r.calls[c] > f.n && !f.lasts {
		return nil
	}
	r.failed++
	return &fs.PathError{Op: op, Path: name, Err: f.errno}
}

func (r *recorder) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.healed = true
}

// count returns the number of calls that failed, and of events.
func (r *recorder) count() (failed, events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed, len(r.events)
}

// open opens a file by fn, and returns its number. The caller holds mu.
func (r *recorder) open(name string, fn func() error) (number int, err error) {
	_, err = os.Lstat(name)
	created := errors.Is(err, fs.ErrNotExist)
	if err := fn(); err != nil {
		return 0, err
	}
	base := filepath.Base(name)
	if created {
		r.opened[base] = r.files
		r.note(disk.Event{Kind: disk.Create, File: r.files, Name: base})
		r.files++
	}
	return r.opened[base], nil
}

func (r *recorder) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &file{r: r}
	var err error
	f.number, err = r.open(name, func() (err error) { f.File, err = r.OS.OpenFile(name, flag, perm); return err })
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	f.size = info.Size()
	return f, nil
}

func (r *recorder) change(op, from, to string, do func(from, to string) error, e disk.Event, move func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.strike(names, op, from); err != nil {
		return err
	}
	if err := do(from, to); err != nil {
		return err
	}
	e.Name, e.To = filepath.Base(from), filepath.Base(to)
	if e.Kind == disk.Link {
		e.File = r.opened[e.Name]
	}
	r.note(e)
	move()
	return nil
}

func (r *recorder) Link(from, to string) error {
	return r.change("link", from, to, r.OS.Link, disk.Event{Kind: disk.Link}, func() {
		r.opened[filepath.Base(to)] = r.opened[filepath.Base(from)]
	})
}

func (r *recorder) Rename(from, to string) error {
	return r.change("rename", from, to, r.OS.Rename, disk.Event{Kind: disk.Rename}, func() { r.moved(from, to) })
}

func (r *recorder) RenameNew(from, to string) error {
	return r.change("rename", from, to, r.OS.RenameNew, disk.Event{Kind: disk.Rename}, func() { r.moved(from, to) })
}

func (r *recorder) moved(from, to string) {
	r.opened[filepath.Base(to)] = r.opened[filepath.Base(from)]
	delete(r.opened, filepath.Base(from))
}

func (r *recorder) Exchange(a, b string) error {
	return r.change("exchange", a, b, r.OS.Exchange, disk.Event{Kind: disk.Exchange}, func() {
		x, y := filepath.Base(a), filepath.Base(b)
		r.opened[x], r.opened[y] = r.opened[y], r.opened[x]
	})
}

func (r *recorder) Remove(name string) error {
	remove := func(name, _ string) error { return r.OS.Remove(name) }
	if _, err := os.Lstat(name); err != nil {
		return r.OS.Remove(name)
	}
	return r.change("remove", name, "", remove, disk.Event{Kind: disk.Remove}, func() {
		delete(r.opened, filepath.Base(name))
	})
}

func (r *recorder) SyncDir(string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.strike(syncs, "fsync", "the directory"); err != nil {
		return err
	}
	r.note(disk.Event{Kind: disk.SyncDir}) // nothing need last: the images are made of the recording
	return nil
}

func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.write(b, offset)
}

// write writes and records. The caller holds mu.
func (f *file) write(b []byte, offset int64) (int, error) {
	n, err := f.r.write(f.File, f.Handle().Name(), f.number, b, offset)
	if n > 0 {
		f.size = max(f.size, offset+int64(n))
	}
	return n, err
}

// write writes to a file, and records it. The caller holds mu.
func (r *recorder) write(to io.WriterAt, name string, number int, b []byte, offset int64) (int, error) {
	err := r.strike(writes, "pwrite", name)
	whole := len(b)
	if err != nil {
		if !r.fault.short {
			return 0, err
		}
		b = b[:len(b)/2]
	}
	n, werr := to.WriteAt(b, offset)
	if n > 0 {
		r.note(disk.Event{Kind: disk.Write, File: number, Offset: offset, Data: append([]byte(nil), b[:n]...)})
	}
	if werr != nil || n < whole {
		return n, errors.Join(err, werr)
	}
	return n, nil
}

func (f *file) Truncate(size int64) error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if err := f.r.strike(resizes, "truncate", f.Handle().Name()); err != nil {
		return err
	}
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	f.resized(size)
	return nil
}

func (f *file) resized(size int64) {
	f.size = size
	f.r.note(disk.Event{Kind: disk.Resize, File: f.number, Offset: size})
}

func (f *file) Sync() error     { return f.SyncData() }
func (f *file) SyncData() error { f.r.mu.Lock(); defer f.r.mu.Unlock(); f.grown(); return f.sync() }

// sync records that the content lasts. The caller holds mu.
func (f *file) sync() error { return f.r.sync(f.Handle().Name(), f.number) }

// sync records that the content of a file lasts. The caller holds mu.
func (r *recorder) sync(name string, number int) error {
	if err := r.strike(syncs, "fsync", name); err != nil {
		r.note(disk.Event{Kind: disk.Failed, Of: disk.Sync, File: number})
		return err
	}
	r.note(disk.Event{Kind: disk.Sync, File: number})
	return nil
}

func (f *file) Named(name string) (vfs.File, error) {
	named, err := f.File.Named(name)
	if err != nil {
		return nil, err
	}
	f.File = named
	return f, nil
}

// grown records that bbolt has changed the size of its file, which it syncs at once.
func (f *file) grown() {
	info, err := f.Stat()
	if err != nil || f.db == nil || info.Size() == f.size {
		return
	}
	f.resized(info.Size())
	if !f.db.NoGrowSync {
		f.r.note(disk.Event{Kind: disk.Sync, File: f.number})
	}
}

// Attach takes the writes of bbolt. bbolt writes the pages of a commit, syncs, writes the meta
// page, and syncs again. It has no hook for the syncs, so the recorder notes them, and has them
// fail, where they would be: before and after a write of a meta page.
func (r *recorder) Attach(opened vfs.File, db *bbolt.DB) {
	f, ok := opened.(*file)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.db = db
	if info, err := f.Stat(); err == nil && f.size == 0 && info.Size() > 0 { // bbolt has made the file
		content := make([]byte, info.Size())
		if _, err := f.ReadAt(content, 0); err == nil {
			r.note(disk.Event{Kind: disk.Write, File: f.number, Data: content})
			r.note(disk.Event{Kind: disk.Sync, File: f.number})
			f.size = info.Size()
		}
	}
	// The field is not exported. A later version of bbolt without it fails every test here.
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*func(b []byte, offset int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	page := int64(db.Info().PageSize)
	*hook = func(b []byte, offset int64) (int, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.grown()
		if meta := offset <= page && int64(len(b)) == page; !meta || db.NoSync {
			return f.write(b, offset)
		}
		if err := f.sync(); err != nil {
			return 0, err
		}
		n, err := f.write(b, offset)
		if err == nil {
			err = f.sync()
		}
		return n, err
	}
}
