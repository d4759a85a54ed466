package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/fsinfo"
	"github.com/brimgo/brim/store"
)

func TestCheck(t *testing.T) {
	path, _ := smallFile(t)
	sound := bytesOf(t, path)
	at := func(dir, name string, content []byte) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, content, 0o600))
		return p
	}
	// Every leaf with records has damage.
	damaged := bytes.Clone(sound)
	for i := 4 * os.Getpagesize(); i < len(damaged); i += 512 {
		damaged[i] ^= 1
	}
	held := at(t.TempDir(), "held.db", sound)
	closeStore(t, openAt(t, held, nil))
	holder := openAt(t, held, nil)
	defer closeStore(t, holder)

	on, _, err := fsinfo.Of(path)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}

	cases := []struct{ name, path, want string }{
		{"sound", path, ""},
		{"damaged", at(t.TempDir(), "damaged.db", damaged), "broken content"},
		{"another file", at(t.TempDir(), "text", bytes.Repeat([]byte("no database\n"), 1000)), "broken content"},
		{"empty", at(t.TempDir(), "empty", nil), "broken content"},
		{"open elsewhere", held, "unchecked content"},
		{"of a program that was killed", journaled(t, nil), "warning journal"},
	}
	if runtime.GOOS == "linux" {
		// A file with a hole that is larger than the free space has no room for its copy.
		large := at(t.TempDir(), "large.db", sound)
		must(t, os.Truncate(large, on.Free+1<<40))
		cases = append(cases, struct{ name, path, want string }{"no room", large, "warning free space"})
		if dir, err := os.MkdirTemp("/dev/shm", "brim-"); err == nil { // a tmpfs on every common Linux
			defer os.RemoveAll(dir)
			cases = append(cases, struct{ name, path, want string }{"tmpfs", at(dir, "limits.db", sound), "broken file system"})
		} else {
			t.Logf("no tmpfs to check: %v", err)
		}
	}
	for _, c := range cases {
		before, err := os.Stat(c.path)
		must(t, err)
		findings, err := Check(t.Context(), c.path)
		var got []string
		for _, f := range findings {
			if f.Problem == "" || f.Remedy == "" {
				t.Errorf("%s: a text is missing in %+v", c.name, f)
			}
			s := fmt.Sprint(f.Severity, " ", f.Subject)
			// The directory for tests may be a tmpfs itself. Then each file in it has this finding.
			if s != "unchecked file system" && (s != "broken file system" || !on.Volatile || s == c.want) {
				got = append(got, s)
			}
		}
		slices.Sort(got)
		if list := strings.Join(got, ","); err != nil || list != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, list, err, c.want)
		}
		if after, err := os.Stat(c.path); err != nil || after.ModTime() != before.ModTime() {
			t.Errorf("%s: the check has written to the file", c.name)
		}
	}
	_, err = Check(t.Context(), t.TempDir())
	failsWith(t, err, store.ErrMisconfigured, "not a regular file")
	missing := filepath.Join(t.TempDir(), "no.db")
	if _, err := Check(t.Context(), missing); !errors.Is(err, store.ErrMisconfigured) || !strings.HasPrefix(err.Error(), "bolt: check no.db: ") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the check has made a file: %v", err)
	}
}

// TestCheckOpen checks stores while they are open.
func TestCheckOpen(t *testing.T) {
	path, _ := smallFile(t)
	s := openAt(t, path, nil)
	subjects := func() (all []string) {
		findings, err := s.Check(t.Context())
		must(t, err)
		for _, f := range findings {
			if f.Subject != "file system" { // of the directory for tests
				all = append(all, fmt.Sprint(f.Severity, " ", f.Subject))
			}
		}
		return all
	}
	if got := subjects(); len(got) > 0 {
		t.Errorf("a sound store: %v", got)
	}
	if err := s.Visit(t.Context(), "brim.check/", func(e store.Entry) bool {
		t.Errorf("the check has left %q", e.Key)
		return true
	}); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	for at := int64(4 * os.Getpagesize()); at < info.Size(); at += 512 {
		if _, err := f.WriteAt([]byte{0xff}, at); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(subjects()); got != "[broken content]" {
		t.Errorf("a damaged store: %v", got)
	}
	_ = s.Close() // it may tell of the damage
	if _, err := s.Check(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}
