package pgtest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServerDir(t *testing.T) {
	top := ownersOnly(t)
	mkdir := func(name string, mode os.FileMode) string {
		t.Helper()
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	open := mkdir("open", 0o777|os.ModeSticky)
	closed := mkdir("closed", 0o755)
	hidden := mkdir("private/open", 0o777)
	mkdir("private", 0o700)
	for _, c := range []struct {
		name, tmp string
		root      bool
		want, why string
	}{
		{"root, open", open, true, open, "the server's user can make and remove a directory there"},
		{"root, closed", closed, true, "/tmp", "the server's user could not remove its directory"},
		{"root, hidden", hidden, true, "/tmp", "the server's user could not reach its directory"},
		{"root, missing", filepath.Join(top, "missing"), true, "/tmp", "no directory can be made there"},
		{"root, relative", ".", true, "/tmp", "the parents are unknown"},
		{"not root, closed", closed, false, closed, "the server's user is the owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := serverDir(c.tmp, c.root); got != c.want {
				t.Errorf("serverDir(%q, %v) = %q, want %q: %s", c.tmp, c.root, got, c.want, c.why)
			}
		})
	}
}
