//go:build sqlite

package crash

import (
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/brimgo/brim/lab/internal/disk"
	"github.com/brimgo/brim/lab/internal/history"
)

// With the build tag sqlite the harness tests packages sqlite and spend/sqliteledger. The driver
// lets a program take the place of the file system under SQLite.
func init() {
	var current atomic.Pointer[recorder]
	follow = func(r *recorder) { current.Store(r) }
	vfs.Register("recorder", recordedFS{vfs.Find("os"), &current})
	history.Source = func(path, synchronous string) (driver, source string) {
		q := url.Values{"vfs": {"recorder"}, "_pragma": {"busy_timeout(0)", "synchronous(" + synchronous + ")"}}
		return "sqlite3", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
	}
	subjects, pkg, planted = history.OfSQLite[:], "crash -tags sqlite", plantedInSQLite
	plantedTime = 3 * time.Minute // to open an image takes a hundred times as long as one of bolt
}

// recordedFS is the file system of SQLite. The current recorder, if there is one, notes all
// changes, but those of temporary files and of the index of a log, which is made anew after a power
// cut.
type recordedFS struct {
	vfs.VFS
	current *atomic.Pointer[recorder]
}

// recordedFile is a file of a recorder.
type recordedFile struct {
	vfs.File
	r       *recorder
	name    string
	number  int
	syncDir bool // the first sync is also one of the directory
}

func (v recordedFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	r := v.current.Load()
	if r == nil || name == nil || flags&vfs.OPEN_DELETEONCLOSE != 0 {
		return vfsutil.WrapOpenFilename(v.VFS, name, flags)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const logs = vfs.OPEN_MAIN_JOURNAL | vfs.OPEN_SUPER_JOURNAL | vfs.OPEN_WAL
	f := &recordedFile{r: r, name: name.String(), syncDir: flags&vfs.OPEN_CREATE != 0 && flags&logs != 0}
	var err error
	f.number, err = r.open(f.name, func() (err error) {
		f.File, flags, err = vfsutil.WrapOpenFilename(v.VFS, name, flags)
		return err
	})
	if err != nil {
		return nil, flags, err
	}
	return f, flags, nil
}

func (v recordedFS) Delete(name string, syncDir bool) error {
	r := v.current.Load()
	if r == nil {
		return v.VFS.Delete(name, syncDir)
	}
	err := r.Remove(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sqlite3.IOERR_DELETE_NOENT
	case err == nil && syncDir && r.SyncDir("") != nil:
		return sqlite3.IOERR_DIR_FSYNC
	}
	return err
}

func (f *recordedFile) WriteAt(b []byte, offset int64) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	n, err := f.r.write(f.File, f.name, f.number, b, offset)
	if errors.Is(err, syscall.ENOSPC) {
		err = sqlite3.FULL // as SQLite's own file system has it, for writes alone
	}
	return n, err
}

func (f *recordedFile) Truncate(size int64) error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	err := f.r.strike(resizes, "truncate", f.name)
	if err == nil {
		err = f.File.Truncate(size)
	}
	if err == nil {
		f.r.note(disk.Event{Kind: disk.Resize, File: f.number, Offset: size})
	}
	return err
}

func (f *recordedFile) Sync(vfs.SyncFlag) error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	err := f.r.sync(f.name, f.number)
	if err == nil && f.syncDir {
		f.syncDir = false
		if err = f.r.strike(syncs, "fsync", "the directory"); err != nil {
			return sqlite3.IOERR_DIR_FSYNC
		}
		f.r.note(disk.Event{Kind: disk.SyncDir})
	}
	return err
}

// SharedMemory returns the index of the log, which several connections share.
func (f *recordedFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }

// follows returns a function that reports whether an event concerns a file whose name has a suffix.
func follows(suffix string) func(disk.Event) bool {
	files := make(map[int]bool)
	return func(e disk.Event) bool {
		if e.Kind == disk.Create {
			files[e.File] = strings.HasSuffix(e.Name, suffix)
		}
		return e.Kind != disk.SyncDir && e.Kind != disk.Remove && files[e.File]
	}
}

// noSyncsOf returns an edit that leaves out the syncs of files whose names have a suffix.
func noSyncsOf(suffix string) edit {
	return without(func() func(disk.Event) bool {
		of := follows(suffix)
		return func(e disk.Event) bool { return of(e) && e.Kind == disk.Sync }
	})
}

// noSyncAfter returns an edit that leaves out the sync of the directory that comes at once after an
// event of a kind.
func noSyncAfter(kind disk.Kind) edit {
	return without(func() func(disk.Event) bool {
		var last disk.Kind
		return func(e disk.Event) bool {
			gone := e.Kind == disk.SyncDir && last == kind
			last = e.Kind
			return gone
		}
	})
}

// plantedInSQLite are the faults that a power cut shows.
var plantedInSQLite = []plant{
	{name: "synchronous OFF", why: "an answer counts although nothing was forced to the disk", subject: history.Unforced},
	{name: "no sync of the log", why: "synchronous NORMAL: a commit can be lost", subject: history.SQLite, edit: noSyncsOf("-wal")},
	{name: "no sync of the log's name", why: "the log can be lost as a whole", subject: history.SQLite, edit: noSyncAfter(disk.Sync)},
	{
		name: "no sync of the file", why: "the log begins anew, and the file lacks its changes",
		subject: history.SQLite, edit: noSyncsOf(".db"),
	},
	{name: "an answer before the commit", why: "a call was acknowledged before it was written", subject: history.SQLite, edit: early},
	{
		name: "rollback: no sync of the journal", why: "the file is changed, and nothing can undo the half of it",
		subject: history.Rollback, edit: noSyncsOf("-journal"),
	},
	{
		name: "rollback: no sync after the removal", why: "synchronous FULL: the journal can come back, and undoes a commit",
		subject: history.Rollback, edit: noSyncAfter(disk.Remove),
	},
	{name: "rollback: no sync of the file", why: "a commit can be lost", subject: history.Rollback, edit: noSyncsOf(".db")},
	{name: "ledger: no sync of the log", why: "a spend can be lost", subject: history.SQLiteLedger, edit: noSyncsOf("-wal")},
}
