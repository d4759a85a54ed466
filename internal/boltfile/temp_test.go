package boltfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// leave makes a temporary file for path as a process that was killed leaves it: with a database in
// it and without a lock.
func leave(t *testing.T, path string) (temp string) {
	t.Helper()
	file, temp, err := newTemp(vfs.OS{}, path, 0o600)
	must(t, err)
	db, err := openBolt(vfs.OS{}, file, 0, 0)
	if err == nil {
		err = errors.Join(db.Update(testLayout{}.Create), db.Close())
	}
	must(t, err)
	return temp
}

// TestSweep lists files that stand beside a file when it is opened.
func TestSweep(t *testing.T) {
	const base = "test.db"
	write := func(content string) func(*testing.T, string) string {
		return func(t *testing.T, path string) string {
			temp := filepath.Join(filepath.Dir(path), tempName(base))
			must(t, os.WriteFile(temp, []byte(content), 0o600))
			return temp
		}
	}
	for _, c := range []struct {
		name, why string
		make      func(t *testing.T, path string) (name string)
		goes      bool
	}{
		{"left whole", "", leave, true},
		{"left before its first write", "", write(""), true},
		{"zeros", "a power failure took the content", write(strings.Repeat("\x00", 4096)), true},
		{
			"a second name of the file", "its maker was killed after it had given the file its name",
			func(t *testing.T, path string) string {
				temp := filepath.Join(filepath.Dir(path), tempName(base))
				must(t, os.Link(path, temp))
				return temp
			}, true,
		},
		{"locked", "its maker is alive", func(t *testing.T, path string) string {
			file, temp, err := newTemp(vfs.OS{}, path, 0o600)
			must(t, err)
			t.Cleanup(func() { _ = file.Close() })
			return temp
		}, false},
		{"another content", "the content is not brim's", write("the only copy of a letter"), false},
		{"a few zeros, then text", "the content is not brim's", write("\x00\x00\x00text, and some more of it"), false},
		{"another end of the name", "the name is not brim's", func(t *testing.T, path string) string {
			temp := leave(t, path)
			other := temp[:len(temp)-1] + "0"
			must(t, os.Rename(temp, other))
			return other
		}, false},
		{"of another file", "it belongs to a file named app.test.db", func(t *testing.T, path string) string {
			return leave(t, filepath.Join(filepath.Dir(path), "app."+base))
		}, false},
		{"a directory", "", func(t *testing.T, path string) string {
			temp := filepath.Join(filepath.Dir(path), tempName(base))
			must(t, os.Mkdir(temp, 0o700))
			return temp
		}, false},
		{"a link", "what it leads to is not brim's to judge", func(t *testing.T, path string) string {
			temp := filepath.Join(filepath.Dir(path), tempName(base))
			must(t, os.Symlink(leave(t, filepath.Join(t.TempDir(), "x")), temp))
			return temp
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), base)
			must(t, openAt(t, path, testOptions).Close())
			name := c.make(t, path)
			before, _ := os.ReadFile(name)
			f := openAt(t, path, testOptions)
			_, err := os.Lstat(name)
			if gone := errors.Is(err, fs.ErrNotExist); gone != c.goes {
				t.Fatalf("gone: %v, %v; want %v; %s", gone, err, c.goes, c.why)
			}
			if after, _ := os.ReadFile(name); !c.goes && !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			mustUpdate(t, f, put("other", 1))
		})
	}
}

// TestErrorsNameThePath: nobody knows a temporary file by its name.
func TestErrorsNameThePath(t *testing.T) {
	const temp, path = "/data/limits.db.new-X", "/data/limits.db"
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: temp, Err: syscall.ENOSPC}, "open /data/limits.db: no space left on device"},
		{
			&os.LinkError{Op: "rename", Old: temp, New: path, Err: syscall.ENOSPC},
			"rename /data/limits.db: no space left on device",
		},
		{
			Failed("write "+temp+": no space left on device", syscall.ENOSPC),
			"write /data/limits.db: no space left on device; make room",
		},
		{syscall.ENOSPC, "no space left on device"},
	} {
		err := hideTemp(c.err, temp, path)
		if err.Error() != c.want || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %q, want %q", err, c.want)
		}
		is(t, c.want, FileError(err), store.ErrUnavailable)
	}
	f := openTemp(t)
	mustUpdate(t, f, put("other", 1))
	if _, _, err := f.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.file.Handle().Name() != f.Path() || f.db.Path() != f.Path() {
		t.Errorf("after Compact, errors name %q and %q, want %q", f.file.Handle().Name(), f.db.Path(), f.Path())
	}
	if err := f.file.Truncate(-1); err == nil || !strings.Contains(err.Error(), f.Path()+":") {
		t.Errorf("error %v, want one that names %q", err, f.Path())
	}
}
