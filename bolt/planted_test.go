package bolt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestPlanted puts a link or a directory in the place of the journal, under its temporary name, or
// in the place of the file. A store writes to no file at the other end of a link to its journal, and
// makes none there.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name, at string // at stands behind the path of the file
		put      func(at, victim string) error
		words    []string // of the error of Open; nil if it is put there when the store is open
	}{
		{"a link to a file for the journal", kv.LogSuffix, func(at, victim string) error { return os.Symlink(victim, at) }, []string{"symbolic link"}},
		{"a link to nowhere for the journal", kv.LogSuffix, func(at, victim string) error {
			return os.Symlink(victim+".none", at)
		}, []string{"symbolic link", "limits.db.journal", "move away"}},
		{"a directory for the journal", kv.LogSuffix, func(at, _ string) error { return os.Mkdir(at, 0o700) }, []string{"not a regular file"}},
		{"a link to nowhere for the journal that comes", kv.LogSuffix, func(at, victim string) error {
			return os.Symlink(victim+".none", at)
		}, nil},
		{"a link to a file under the temporary name", kv.LogSuffix + ".new", func(at, victim string) error { return os.Symlink(victim, at) }, nil},
		{"a link to nowhere under the temporary name", kv.LogSuffix + ".new", func(at, victim string) error {
			return os.Symlink(victim+".none", at)
		}, nil},
		{"a directory under the temporary name", kv.LogSuffix + ".new", func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "d"), 0o700) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			victim := filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "limits.db")
			closeStore(t, openAt(t, path, nil))
			plant := func() {
				if err := c.put(path+c.at, victim); err != nil {
					t.Fatal(err)
				}
			}
			if c.words != nil {
				before := bytesOf(t, path)
				plant()
				_, err := Open(path, nil)
				failsWith(t, err, store.ErrUnavailable, c.words...)
				if string(bytesOf(t, path)) != string(before) {
					t.Error("the file was changed")
				}
			} else {
				s := openAt(t, path, nil)
				plant()
				for range 3 { // the second makes the journal
					fillup(t, s, "k", 1)
				}
				levelIs(t, s, "k", 3)
				closeStore(t, s)
			}
			if content := bytesOf(t, victim); string(content) != "precious" {
				t.Errorf("the file behind the link has %q", content)
			}
			leftOver(t, filepath.Dir(victim), "victim")
		})
	}
	t.Run("a link to nowhere for the file", func(t *testing.T) {
		outside, path := t.TempDir(), filepath.Join(t.TempDir(), "limits.db")
		if err := os.Symlink(filepath.Join(outside, "none.db"), path); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, nil)
		failsWith(t, err, store.ErrUnavailable, "a symbolic link to nowhere")
		leftOver(t, outside)
	})
}
