package bolt

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// tiny makes segments that some tens of changes fill.
const tiny = 4096

// copyTo copies the files of a store that is open, as a kill would leave them.
func copyTo(t testing.TB, s *Store, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, filepath.Base(s.db.File().Path()))
	for _, suffix := range []string{"", kv.LogSuffix} {
		b, err := os.ReadFile(s.db.File().Path() + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		must(t, err)
	}
	return path
}

// journaled returns the files of a store that was killed when its journal had changes.
func journaled(t testing.TB, o *Options) (path string) {
	t.Helper()
	s := openTemp(t, o)
	for range 5 {
		fillup(t, s, "k", 1)
	}
	return copyTo(t, s, t.TempDir())
}

// TestStrangePairs opens and checks files and journals that do not belong together. Nothing is
// dropped in silence: Open names the file to put back, Check tells of the damage, and all files
// stay as they are.
func TestStrangePairs(t *testing.T) {
	o := &Options{logSegment: 64 << 10}
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, path string)
		want  error
		words []string
		check string // a part of the finding; "" if Check fails
	}{
		{"no journal", func(t *testing.T, path string) {
			must(t, os.Remove(path+kv.LogSuffix))
		}, store.ErrMisconfigured, []string{"limits.db.journal is missing", "put it back"}, "is missing"},
		{"no file", func(t *testing.T, path string) {
			must(t, os.Remove(path))
		}, store.ErrMisconfigured, []string{"the file is missing", "put the file back"}, ""},
		{"the journal of another file", func(t *testing.T, path string) {
			replace(t, path+kv.LogSuffix, journaled(t, o)+kv.LogSuffix)
		}, store.ErrMisconfigured, []string{"is that of another file"}, "is that of another file"},
		{"another file, which needs no journal", func(t *testing.T, path string) {
			s := openTemp(t, nil)
			fillup(t, s, "k", 1)
			closeStore(t, s)
			replace(t, path, s.db.File().Path())
		}, store.ErrMisconfigured, []string{"belongs to another file", "put that file back"}, "belongs to another file"},
		{"an old file", func(t *testing.T, path string) {
			s := openTemp(t, &Options{logSegment: tiny})
			for range 3 {
				fillup(t, s, "k", 1)
			}
			old := copyTo(t, s, t.TempDir())
			for range 400 {
				fillup(t, s, "k", 1)
			}
			copyTo(t, s, filepath.Dir(path))
			replace(t, path, old)
		}, store.ErrMisconfigured, []string{"older than its journal", "put the newest file back"}, "newer than the file"},
		{"a damaged frame", func(t *testing.T, path string) {
			damageAt(t, path+kv.LogSuffix, 4096+o.logSegment+40) // the first frame, which is in the second segment
		}, store.ErrCorrupt, []string{"limits.db.journal", "restore the last backup"}, "cannot be read"},
		{"a damaged first page", func(t *testing.T, path string) {
			damageAt(t, path+kv.LogSuffix, 0)
		}, store.ErrCorrupt, []string{"limits.db.journal", "restore the last backup"}, "cannot be read"},
		{"a journal cut short", func(t *testing.T, path string) {
			must(t, os.Truncate(path+kv.LogSuffix, 100_000))
		}, store.ErrCorrupt, []string{"100000 bytes", "restore the last backup"}, "cannot be read"},
		{"the files of an earlier version, which was killed", func(t *testing.T, path string) {
			replace(t, path, "testdata/journal1.db")
			replace(t, path+kv.LogSuffix, "testdata/journal1.db"+kv.LogSuffix)
		}, store.ErrMisconfigured, []string{
			"limits.db.journal", "an earlier version of brim", "open the file with that version and close it",
		}, "earlier version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := journaled(t, o)
			c.make(t, path)
			before := filesOf(t, filepath.Dir(path))
			for _, o := range []*Options{nil, {NoJournal: true}, {SyncEvery: time.Hour}} {
				_, err := Open(path, o)
				failsWith(t, err, c.want, c.words...)
			}
			findings, err := Check(t.Context(), path)
			if c.check == "" {
				failsWith(t, err, c.want, c.words...)
			} else if err != nil || !slices.ContainsFunc(findings, func(f store.Finding) bool {
				return f.Severity == store.Broken && f.Subject == "journal" && strings.Contains(f.Problem, c.check)
			}) {
				t.Errorf("Check: %+v, %v; want that the journal %s", findings, err, c.check)
			}
			if !slices.EqualFunc(filesOf(t, filepath.Dir(path)), before, bytes.Equal) {
				t.Error("the files have changed")
			}
		})
	}
}

func replace(t *testing.T, path, by string) {
	t.Helper()
	must(t, os.WriteFile(path, bytesOf(t, by), 0o600))
}

func damageAt(t *testing.T, path string, at int64) {
	t.Helper()
	b := bytesOf(t, path)
	b[at] ^= 1
	must(t, os.WriteFile(path, b, 0o600))
}

func filesOf(t *testing.T, dir string) (files [][]byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		files = append(files, []byte(e.Name()), bytesOf(t, filepath.Join(dir, e.Name())))
	}
	return files
}

// TestLeftJournal: a process that ended in the middle of Close left a journal that the file does
// not need. Open removes it.
func TestLeftJournal(t *testing.T) {
	path := journaled(t, nil)
	log := bytesOf(t, path+kv.LogSuffix)
	closeStore(t, openAt(t, path, nil))
	must(t, os.WriteFile(path+kv.LogSuffix, log, 0o600))
	levelIs(t, openAt(t, path, nil), "k", 5)
	leftOver(t, filepath.Dir(path), "limits.db")
}

// TestFirstChangeMakesNoJournal: a program that changes one bucket and ends makes one file. The
// size of a store is that of its files.
func TestFirstChangeMakesNoJournal(t *testing.T) {
	s := openTemp(t, nil)
	path := s.db.File().Path()
	for fills := range 4 {
		names, size := []string{"limits.db"}, int64(len(bytesOf(t, path)))
		if fills > 1 {
			names = append(names, "limits.db.journal")
			size += int64(len(bytesOf(t, path+kv.LogSuffix)))
		}
		leftOver(t, filepath.Dir(path), names...)
		if got, err := s.Size(t.Context()); err != nil || got != size {
			t.Errorf("after %d fills: %d bytes, %v; want %d", fills, got, err, size)
		}
		fillup(t, s, "k", 1)
	}
	closeStore(t, s)
	leftOver(t, filepath.Dir(path), "limits.db")
}

// TestNoJournalCanBeMade: where no journal can be made, each commit goes straight to the file, and
// the store says so once.
func TestNoJournalCanBeMade(t *testing.T) {
	var log bytes.Buffer
	s := openTemp(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, os.Mkdir(s.db.File().Path()+kv.LogSuffix, 0o700))
	for range 5 {
		fillup(t, s, "k", 1)
	}
	if n := bytes.Count(log.Bytes(), []byte("no journal could be made")); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	must(t, os.Remove(s.db.File().Path()+kv.LogSuffix))
	levelIs(t, openAt(t, copyTo(t, s, t.TempDir()), nil), "k", 5)
}

// TestFullJournal keeps the file from being written while the journal fills. Callers wait until the
// file can be written, and nothing is lost.
func TestFullJournal(t *testing.T) {
	// The bubble's clock stands still while the disk works, so a slow disk ends no context.
	synctest.Test(t, func(t *testing.T) {
		s := openTemp(t, &Options{logSegment: tiny})
		for range 3 {
			fillup(t, s, "k", 1)
		}
		lockFile(t, s.db.File())
		filled := 3.0
		for ; ; filled++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := s.Fill(ctx, op(steady, "k", 1, store.Always))
			cancel()
			if err != nil {
				failsWith(t, err, store.ErrUnknownOutcome)
				break
			}
			if filled > 1000 {
				t.Fatal("the journal never fills")
			}
		}
		levelIs(t, openAt(t, copyTo(t, s, t.TempDir()), nil), "k", filled)
		s.db.File().Unlock()
		fillup(t, s, "k", 1)
		levelIs(t, s, "k", filled+2) // the call that was given up has been applied
	})
}

// TestNewOverAJournaledFile: New does not read a journal, so it takes no file that needs one.
func TestNewOverAJournaledFile(t *testing.T) {
	path := journaled(t, nil)
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = New(db, nil)
	failsWith(t, err, store.ErrMisconfigured, "open the file with Open and close it")
}
