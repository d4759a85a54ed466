package bolt

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestPlace: an open store whose file, or whose journal, was removed, moved or replaced refuses all
// work within a second, and a check says so. Otherwise it would acknowledge charges that nobody
// finds.
func TestPlace(t *testing.T) {
	gone := func(path string) error { return os.Remove(path) }
	moved := func(path string) error { return os.Rename(path, path+".moved") }
	replaced := func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+".copy", b, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".copy", path)
		}
		return err
	}
	whole := func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved") }
	for _, c := range []struct {
		name   string
		o      Options
		suffix string
		do     func(path string) error
	}{
		{"the file is removed", Options{}, "", gone},
		{"the file is moved", Options{}, "", moved},
		{"the file is replaced", Options{}, "", replaced},
		{"the directory is moved", Options{}, "", whole},
		{"the journal is removed", Options{}, kv.LogSuffix, gone},
		{"the journal is replaced", Options{SyncEvery: time.Hour}, kv.LogSuffix, replaced},
		{"the file is replaced, without a journal", Options{NoJournal: true}, "", replaced},
	} {
		for _, check := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "data")
					must(t, os.Mkdir(dir, 0o700))
					path := filepath.Join(dir, "limits.db")
					s := openAt(t, path, &c.o)
					for range 3 {
						fillup(t, s, "k", 1)
					}
					time.Sleep(time.Minute)
					fillup(t, s, "k", 1)
					must(t, c.do(path+c.suffix))
					if check {
						_, err := s.Check(t.Context())
						failsWith(t, err, store.ErrMisconfigured, "removed or replaced while it was open")
					} else {
						time.Sleep(time.Second)
						synctest.Wait()
					}
					_, err := s.Fill(t.Context(), op(steady, "k", 1, store.IfFits))
					failsWith(t, err, store.ErrMisconfigured, "removed or replaced while it was open")
					_ = s.Close()
				})
			})
		}
	}
}

// TestCompactKeepsItsPlace: a compaction replaces the file by itself.
func TestCompactKeepsItsPlace(t *testing.T) {
	s := openTemp(t, nil)
	for range 3 {
		fillup(t, s, "k", 1)
	}
	if _, _, err := s.Compact(t.Context()); err != nil {
		t.Skipf("no compaction here: %v", err)
	}
	must(t, s.db.InPlace(t.Context()))
	fillup(t, s, "k", 1)
}

// TestEmptyFile: an empty file is no store that begins, but the error tells the way out.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	must(t, os.WriteFile(path, nil, 0o600))
	_, err := Open(path, nil)
	failsWith(t, err, store.ErrCorrupt, "it is empty", "if it was made by hand, remove it")
}
