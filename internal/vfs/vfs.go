// Package vfs is the file system under the storage engine: every file that the engine changes, it
// changes through an [FS]. So a harness can record all changes, build each state that a power cut
// may leave, and have any change fail, in one process and without help of the system.
//
// bbolt needs an *os.File of its own, and maps it into memory. [FS.Attach] tells the file system of
// such a file, so that a harness can take the writes of bbolt as well.
package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/durable"
)

// FS names and opens files. Any number of goroutines may use it at once.
type FS interface {
	// OpenFile opens a file as [os.OpenFile] does.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Link gives a file a second name, and fails if there is a file of that name.
	Link(from, to string) error
	// Rename renames a file, and replaces a file of the new name.
	Rename(from, to string) error
	// RenameNew renames a file, and fails if there is a file of the new name. Where the system has
	// no such call, the error is [errors.ErrUnsupported].
	RenameNew(from, to string) error
	// Exchange gives each of two files the name of the other, in one step. Where the system or the
	// file system has no such call, the error is [errors.ErrUnsupported].
	Exchange(a, b string) error
	// Remove removes a name.
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Attach is told that db writes file from now on, by the handle of file.
	Attach(file File, db *bbolt.DB)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes content and metadata of the file durable.
	Sync() error
	// SyncData makes the content of the file durable, without its times.
	SyncData() error
	// Named returns the file under another name for its errors, and closes the old handle. A lock
	// on the file stays. Where the system has no portable call for that, the name stays, too.
	Named(name string) (File, error)
	// Handle returns the file of the system, for locks, owners and bbolt.
	Handle() *os.File
}

// Default is the file system of a database that is opened. It is a variable for the harnesses of
// this repository, which set it before they open a database and reset it afterwards.
var Default FS = OS{}

// OS is the file system of the operating system.
type OS struct{}

// OpenFile opens a file: see [FS].
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Link gives a file a second name: see [FS].
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Rename renames a file: see [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// RenameNew renames a file without replacing another: see [FS].
func (OS) RenameNew(from, to string) error { return renameNew(from, to) }

// Exchange swaps two names: see [FS].
func (OS) Exchange(a, b string) error { return exchange(a, b) }

// Remove removes a name: see [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes names durable: see [FS].
func (OS) SyncDir(dir string) error { return durable.Dir(filepath.Clean(dir)) }

// Attach does nothing: bbolt writes by the handle.
func (OS) Attach(File, *bbolt.DB) {}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) SyncData() error  { return durable.Data(f.File) }
func (f osFile) Handle() *os.File { return f.File }
func (f osFile) Named(name string) (File, error) {
	named, err := renamed(f.File, name)
	if err != nil {
		return nil, err
	}
	return osFile{named}, nil
}
