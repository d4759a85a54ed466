package kv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/vfs"
)

// planted are the things that somebody else may have put under a name that a journal takes. victim
// is a file that no journal may change.
var planted = []struct {
	name string
	put  func(at, victim string) error
}{
	{"a link to a file", func(at, victim string) error { return os.Symlink(victim, at) }},
	{"a link to nowhere", func(at, victim string) error { return os.Symlink(victim+".none", at) }},
	{"a second name of a file", func(at, victim string) error { return os.Link(victim, at) }},
	{"an empty directory", func(at, _ string) error { return os.Mkdir(at, 0o700) }},
	{"a directory", func(at, _ string) error {
		return errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "f"), nil, 0o600))
	}},
}

// untouched fails the test if the victim or its neighborhood was changed.
func untouched(t *testing.T, victim string) {
	t.Helper()
	content, err := os.ReadFile(victim)
	entries, dirErr := os.ReadDir(filepath.Dir(victim))
	if err != nil || string(content) != "precious" || dirErr != nil || len(entries) != 1 {
		t.Errorf("outside of the directory are %v, and the file has %q: %v", entries, content, errors.Join(err, dirErr))
	}
}

func TestPlanted(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			victim := filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "journal")
			if err := p.put(path+newSuffix, victim); err != nil {
				t.Fatal(err)
			}
			j, err := createLog(vfs.OS{}, path, small, asIs)
			switch {
			case err == nil:
				if err := errors.Join(j.append([]byte("body")), j.remove()); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("under the temporary name: %v", err)
			}
			untouched(t, victim)
			if err := p.put(path, victim); err != nil {
				t.Fatal(err)
			}
			if _, err := createLog(vfs.OS{}, path, small, asIs); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create: %v", err)
			}
			for _, reading := range []bool{false, true} {
				if _, err := openLog(vfs.OS{}, path, reading); !errors.Is(err, errNotRegular) && !errors.Is(err, errLogDamaged) {
					t.Errorf("for reading %v: %v", reading, err)
				}
			}
			untouched(t, victim)
		})
	}
}
