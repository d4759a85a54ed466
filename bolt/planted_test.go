package bolt

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestPlanted puts a link, a file or a directory in the place of the journal or under its temporary
// name. Open refuses a thing that is no journal. An open store writes to no file at the other end
// of a link, makes none there, and loses nothing.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(at, victim string) error
		want error // of Open
		says string
	}{
		{
			"a link to a file", func(at, victim string) error { return os.Symlink(victim, at) },
			store.ErrMisconfigured, "symbolic link",
		},
		{
			"a link to nowhere", func(at, victim string) error { return os.Symlink(victim+".none", at) },
			store.ErrMisconfigured, "symbolic link",
		},
		{
			"a second name of a file", func(at, victim string) error { return os.Link(victim, at) },
			store.ErrCorrupt, "cut short",
		},
		{
			"an empty directory", func(at, _ string) error { return os.Mkdir(at, 0o700) },
			store.ErrMisconfigured, "not a regular file; put the journal itself beside the file, or move away",
		},
		{
			"a directory", func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "d"), 0o700) },
			store.ErrMisconfigured, "not a regular file",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			victim := filepath.Join(t.TempDir(), "victim")
			must(t, os.WriteFile(victim, []byte("precious"), 0o600))
			path := filepath.Join(t.TempDir(), "limits.db")
			planted := func(at string, during func()) {
				t.Helper()
				must(t, c.put(at, victim))
				before, err := os.Lstat(at)
				must(t, err)
				during()
				after, err := os.Lstat(at)
				if at == path+kv.LogSuffix && (err != nil || !os.SameFile(before, after)) {
					t.Errorf("nothing or another file stands at the name of the journal: %v", err)
				}
				must(t, os.RemoveAll(at))
			}
			closeStore(t, openAt(t, path, nil))
			before := bytesOf(t, path)
			planted(path+kv.LogSuffix, func() {
				_, err := Open(path, nil)
				failsWith(t, err, c.want, "limits.db.journal", c.says)
			})
			if !bytes.Equal(bytesOf(t, path), before) {
				t.Error("the file was changed")
			}
			for _, suffix := range []string{kv.LogSuffix, kv.LogSuffix + ".new"} {
				s := openAt(t, path, nil)
				planted(path+suffix, func() {
					for range 3 { // the second makes the journal
						fillup(t, s, "k", 1)
					}
					closeStore(t, s)
				})
			}
			levelIs(t, openAt(t, path, nil), "k", 6)
			if content := bytesOf(t, victim); string(content) != "precious" {
				t.Errorf("the file behind the link has %q", content)
			}
			leftOver(t, filepath.Dir(victim), "victim")
		})
	}
}
