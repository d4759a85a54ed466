package history

import (
	"bytes"
	"io/fs"
	"strings"
	"sync"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/vfs"
)

// Install puts the defect under all stores that this process opens from now on, if it is [Early].
func (d Defect) Install() {
	if d == Early {
		vfs.Default = lateFS{}
	}
}

// lateFS is a file system that keeps the bytes that are written to a journal in memory until a
// sync.
type lateFS struct{ vfs.OS }

func (l lateFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := l.OS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, kv.LogSuffix) {
		file = &lateFile{File: file}
	}
	return file, err
}

type lateFile struct {
	vfs.File
	mu     sync.Mutex
	writes []func() error
}

func (f *lateFile) WriteAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b = bytes.Clone(b)
	f.writes = append(f.writes, func() error { _, err := f.File.WriteAt(b, at); return err })
	return len(b), nil
}

func (f *lateFile) SyncData() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, write := range f.writes {
		if err := write(); err != nil {
			return err
		}
	}
	f.writes = nil
	return f.File.SyncData()
}
