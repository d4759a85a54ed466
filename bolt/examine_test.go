package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// patience is the lock timeout of tests that run beside tests which start child processes. Until a
// child executes its own program, it holds the open files of this process, and so their locks.
const patience = time.Minute

// TestExamineEveryPage changes each of the first 48 bytes of each page of a file: the page's
// number, kind, size and first entries. After each change, Examine must end, and must report damage
// or find all buckets.
func TestExamineEveryPage(t *testing.T) {
	t.Parallel()
	masks := []byte{0xff, 0x01, 0x80}[:seed.Attempts(1, 3)]
	path, levels := smallFile(t)
	whole := bytesOf(t, path)
	size := os.Getpagesize()
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	reported := 0
	for page := 2 * size; page < len(whole); page += size {
		for i := range 48 {
			for _, mask := range masks {
				b := bytes.Clone(whole)
				b[page+i] ^= mask
				if err := os.WriteFile(damaged, b, 0o600); err != nil {
					t.Fatal(err)
				}
				r, err := kv.Examine(t.Context(), damaged, patience)
				switch {
				case err != nil:
					t.Fatalf("byte %d of page %d changed by %#x: %v", i, page/size, mask, err)
				case r.Damage != nil || r.Damaged() > 0:
					reported++
				case r.Values()[defaultName] != uint64(len(levels)):
					t.Errorf("byte %d of page %d changed by %#x: no damage is found, and %v of %d buckets",
						i, page/size, mask, r.Values(), len(levels))
				}
			}
		}
	}
	if reported < 100 {
		t.Errorf("damage was reported %d times; want at least 100", reported)
	}
}

// TestExamineJournal examines a file with its journal, with a damaged or foreign one, or with none,
// and compares the answer with that of Open.
func TestExamineJournal(t *testing.T) {
	path := journaled(t, &Options{logSegment: 64 << 10})
	file, log := bytesOf(t, path), bytesOf(t, path+kv.LogSuffix)
	closed := openTemp(t, nil)
	fillup(t, closed, "k", 1)
	closeStore(t, closed)
	other := journaled(t, &Options{logSegment: 64 << 10})
	damaged := bytes.Clone(log)
	damaged[4096+(64<<10)+40]++ // in the first frame
	for _, c := range []struct {
		why, damage string
		file, log   []byte
		check       string
	}{
		{"the pair is as a crash left it", "", file, log, "warning journal"},
		{"the last changes are lost with the journal", "is missing", file, nil, "broken journal"},
		{"a frame before the last is damaged", "cannot be read", file, damaged, "broken journal"},
		{"its first page is damaged", "cannot be read", file, append([]byte("x"), log[1:]...), "broken journal"},
		{"it is cut short", "cannot be read", file, log[:5000], "broken journal"},
		{"another file's journal does not have the changes", "that of another file", file, bytesOf(t, other+kv.LogSuffix), "broken journal"},
		{"a closed file needs no journal", "", bytesOf(t, closed.db.File().Path()), nil, ""},
		{"changes in it may be those of a newer copy", "belongs to another file", bytesOf(t, closed.db.File().Path()), log, "broken journal"},
	} {
		dir := t.TempDir()
		at := filepath.Join(dir, "limits.db")
		if err := os.WriteFile(at, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.log != nil {
			if err := os.WriteFile(at+kv.LogSuffix, c.log, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := kv.Examine(t.Context(), at, patience)
		if err != nil || r.Damage != nil || (c.damage == "") != (r.Journal == "") || !strings.Contains(r.Journal, c.damage) {
			t.Errorf("%s: %+v, %v; want the damage %q", c.why, r, err, c.damage)
		}
		findings, err := Check(t.Context(), at)
		found := slices.ContainsFunc(findings, func(f store.Finding) bool {
			return c.check == fmt.Sprint(f.Severity, " ", f.Subject)
		})
		if err != nil || c.check != "" && !found {
			t.Errorf("%s: %+v, %v; want %q", c.why, findings, err, c.check)
		}
		if !bytes.Equal(bytesOf(t, at), c.file) || c.log != nil && !bytes.Equal(bytesOf(t, at+kv.LogSuffix), c.log) {
			t.Errorf("%s: the examination has changed a file", c.why)
		}
		s, err := Open(at, nil)
		if (err == nil) != (c.damage == "") {
			t.Errorf("%s: Open answers %v; want an error if there is damage", c.why, err)
		}
		if err == nil {
			closeStore(t, s)
		}
	}
}

// TestExamineNothing: a file that cannot be read is an error, and a file that is no database is
// damage.
func TestExamineNothing(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "missing.db"): os.ErrNotExist, dir: store.ErrUnavailable,
	} {
		if _, err := kv.Examine(t.Context(), path, 0); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if r, err := kv.Examine(t.Context(), text, 0); err != nil || !errors.Is(r.Damage, store.ErrCorrupt) {
		t.Errorf("a text: %+v, %v", r, err)
	}
}
