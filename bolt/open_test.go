package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

func TestOpenCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := openAt(t, path, &Options{FileMode: 0o640})
	fillup(t, s, "k", 3)
	closeStore(t, s)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640&^umask(t) {
		t.Errorf("mode %v, %v; want 0640 less umask", info.Mode(), err)
	}
	levelIs(t, openAt(t, path, nil), "k", 3)
	leftOver(t, filepath.Dir(path), "limits.db")
}

func umask(t *testing.T) fs.FileMode {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "x"), os.O_CREATE, 0o777)
	must(t, err)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	must(t, err)
	return 0o777 &^ info.Mode().Perm()
}

// TestOpenRefuses lists files that Open must refuse, and must leave as they are.
func TestOpenRefuses(t *testing.T) {
	write := func(b []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			must(t, os.WriteFile(path, b, 0o600))
		}
	}
	sound := func(t *testing.T) []byte {
		path := filepath.Join(t.TempDir(), "sound.db")
		s := openAt(t, path, nil)
		for i := range 300 {
			fillup(t, s, fmt.Sprintf("key %d", i%100), 1)
		}
		closeStore(t, s)
		return bytesOf(t, path)
	}(t)
	change := func(at int, b ...byte) []byte {
		changed := bytes.Clone(sound)
		copy(changed[at:], b)
		return changed
	}
	page := os.Getpagesize()
	for _, c := range []struct {
		name, why string
		prepare   func(t *testing.T, path string)
		want      error
		says      string
	}{
		{
			"empty file", "bbolt takes it for a fresh database: all limits would be gone",
			write(nil), store.ErrCorrupt, "it is empty",
		},
		{"text", "", write([]byte(strings.Repeat("not a database\n", 1000))), store.ErrCorrupt, "not a bbolt file"},
		{"a few bytes", "", write([]byte("hi")), store.ErrCorrupt, "cut short"},
		{
			"first meta page", "bbolt goes by the other meta page, one commit back",
			write(change(40, 0xFF, 0xFF)), store.ErrCorrupt, "meta page",
		},
		{"second meta page", "the same", write(change(page+40, 0xFF, 0xFF)), store.ErrCorrupt, "meta page"},
		{"magic of the second", "the same", write(change(page+16, 0)), store.ErrCorrupt, "meta page"},
		{"another version of bbolt", "", write(change(16+4, 3)), store.ErrCorrupt, "version"},
		{"second meta page cut off", "", write(sound[:page+20]), store.ErrCorrupt, "cut short"},
		{"cut short", "bbolt maps it, and dies of SIGBUS", write(sound[:3*page]), store.ErrCorrupt, "cut short"},
		{"directory", "", func(t *testing.T, path string) {
			must(t, os.Mkdir(path, 0o700))
		}, store.ErrMisconfigured, "is a directory"},
		{"link to nowhere", "a link cannot be replaced by a new file for ever", func(t *testing.T, path string) {
			must(t, os.Symlink(path+".gone", path))
		}, store.ErrMisconfigured, "symbolic link"},
		{"another program's database", "its bucket of brim's may have lost its name", func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
			must(t, err)
			must(t, db.Close())
		}, store.ErrCorrupt, "use New"},
		{"fewer records than counted", "a lost page leaves the other records intact", func(t *testing.T, path string) {
			write(sound)(t, path)
			editMeta(t, path, func(meta *bbolt.Bucket) error {
				return meta.Tx().Bucket([]byte(defaultName)).Delete([]byte("key 7"))
			})
		}, store.ErrCorrupt, "99 values were found where 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			c.prepare(t, path)
			before := content(path)
			for range 2 {
				s, err := Open(path, &Options{LockTimeout: -1})
				if err == nil {
					_ = s.Close()
					t.Fatalf("the file was opened: %s", c.why)
				}
				failsWith(t, err, c.want, "bolt: open limits.db: ", c.says)
			}
			if !bytes.Equal(before, content(path)) {
				t.Error("the file was changed")
			}
			leftOver(t, filepath.Dir(path), "limits.db")
		})
	}
}

// content returns the content of a regular file, and nil for any other.
func content(path string) []byte {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, _ := os.ReadFile(path)
	return b
}

// editMeta changes the meta bucket of a closed store.
func editMeta(t *testing.T, path string, fn func(meta *bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error { return fn(tx.Bucket([]byte(defaultName + ".meta"))) }))
	must(t, db.Close())
}

func TestOpenWhereItMayNot(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "no", "such", "limits.db"), nil)
	failsWith(t, err, store.ErrMisconfigured, "directory")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v hides its cause", err)
	}
}

func TestOpenFollowsSymbolicLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	fillup(t, openAt(t, filepath.Join(dir, "limits.db"), nil), "k", 1)
	must(t, os.Symlink("limits.db", link))
	_, err := Open(link, &Options{LockTimeout: -1})
	failsWith(t, err, store.ErrUnavailable, "locked")
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := openAt(t, path, nil)
	_, err := Open(path, &Options{LockTimeout: 30 * time.Millisecond})
	failsWith(t, err, store.ErrUnavailable)
	const want = "bolt: open limits.db: locked by another process, or opened twice by this one after 30ms; " +
		"close it there, or take SQLite or PostgreSQL, which processes share"
	if err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	cmd := childCommand("open", path)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "locked by another process, or opened twice by this one; close it") {
		t.Errorf("another process: %v, %s", err, out)
	}
	// An Open that waits long enough gets the file when the store is closed.
	opened := make(chan error, 1)
	go func() {
		s, err := Open(path, &Options{LockTimeout: time.Minute})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	closeStore(t, s)
	must(t, <-opened)
	if out, err := childCommand("open", path).CombinedOutput(); err != nil {
		t.Errorf("another process, after Close: %v, %s", err, out)
	}
}

func childOpen(path string) error {
	s, err := Open(path, &Options{LockTimeout: -1})
	if err != nil {
		return err
	}
	return s.Close()
}

// TestCreateAtOnce creates one file from several goroutines, as several processes would. All of
// them open the same file in turn.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "limits.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := Open(path, &Options{LockTimeout: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				fillup(t, s, "k", 1)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		levelIs(t, openAt(t, path, nil), "k", 8)
		leftOver(t, filepath.Dir(path), "limits.db")
	}
}
