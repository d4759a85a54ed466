package boltfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// TestCompactKeepsOtherBuckets: empty buckets and sequence numbers are kept, too.
func TestCompactKeepsOtherBuckets(t *testing.T) {
	f := openTemp(t)
	const keys = copyBatch + copyBatch/2
	mustUpdate(t, f, put("many", keys))
	mustUpdate(t, f, put("none", 0))
	mustUpdate(t, f, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("none")).SetSequence(7) })
	mustUpdate(t, f, put("gone", keys))
	mustUpdate(t, f, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("gone")) })
	before, after, err := f.Compact(t.Context())
	must(t, err)
	if info, err := os.Stat(f.Path()); err != nil || info.Size() != after || after >= before {
		t.Errorf("%d bytes before, %d after, file %v, %v", before, after, info, err)
	}
	if n := keysIn(t, f, "many"); n != keys {
		t.Errorf("%d keys are left of %d", n, keys)
	}
	err = f.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("none")); b == nil || b.Sequence() != 7 {
			t.Error("the empty bucket or its sequence number is gone")
		}
		return nil
	})
	must(t, err)
	mustUpdate(t, f, put("ours", 10))
	must(t, f.Verify(t.Context()))
}

// TestCompactThatFails: the old file stays in use, and no other file is left.
func TestCompactThatFails(t *testing.T) {
	for _, c := range []struct {
		name, why string
		damage    func(tx *bbolt.Tx) error
	}{
		{"damaged value", "a compaction must not pass damage on", func(tx *bbolt.Tx) error {
			return tx.Bucket(ours).Put([]byte("key"), []byte("value"))
		}},
		{"bucket in a bucket", "a copy of its key alone would lose its content", func(tx *bbolt.Tx) error {
			_, err := tx.Bucket(ours).CreateBucket([]byte("nested"))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openTemp(t)
			mustUpdate(t, f, put("ours", 100))
			mustUpdate(t, f, c.damage)
			if _, _, err := f.Compact(t.Context()); err == nil {
				t.Errorf("it was compacted; %s", c.why)
			} else {
				is(t, "Compact", err, store.ErrCorrupt)
			}
			mustUpdate(t, f, put("other", 1))
			entries, err := os.ReadDir(filepath.Dir(f.Path()))
			if err != nil || len(entries) != 1 {
				t.Errorf("the directory holds %v, %v", entries, err)
			}
		})
	}
	f := openTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	copyTo := func(ctx context.Context, to *bbolt.DB) error {
		return f.View(func(tx *bbolt.Tx) error { return copyBuckets(ctx, tx, to) })
	}
	is(t, "a context that ended", copyTo(ctx, openApp(t)), context.Canceled)
	full := openApp(t)
	full.MaxSize = 1
	mustUpdate(t, f, put("many", copyBatch))
	is(t, "a full disk", copyTo(t.Context(), full), store.ErrUnavailable)
}

// TestCompactReplacesNoOtherFile: another file may have taken the path since the file was opened.
func TestCompactReplacesNoOtherFile(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(path string) error
		want string // the content behind the path
	}{
		{"a file", func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o600) }, "theirs"},
		{"a link to another file", func(path string) error {
			return errors.Join(os.WriteFile(path+".other", []byte("behind"), 0o600), os.Symlink(path+".other", path))
		}, "behind"},
		{"a link to the file itself", func(path string) error { return os.Symlink(path+".old", path) }, ""},
		{"nothing", func(string) error { return nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openTemp(t)
			mustUpdate(t, f, put("other", 1))
			must(t, errors.Join(os.Rename(f.Path(), f.Path()+".old"), c.put(f.Path())))
			before := namesBeside(t, f)
			_, _, err := f.Compact(t.Context())
			is(t, "Compact", err, store.ErrMisconfigured)
			if content, _ := os.ReadFile(f.Path()); c.want != "" && string(content) != c.want {
				t.Errorf("the other file holds %q, want %q", content, c.want)
			}
			if after := namesBeside(t, f); !slices.Equal(before, after) {
				t.Errorf("the directory held %q before, and %q after", before, after)
			}
			mustUpdate(t, f, put("other", 2))
		})
	}
}

// TestSwapGivesBack: another file takes the path after the last look at it. It keeps its name
// and its content.
func TestSwapGivesBack(t *testing.T) {
	for _, theirs := range []string{"theirs", ""} { // "": a link
		f := openTemp(t)
		temp, old := filepath.Join(filepath.Dir(f.Path()), "temp"), f.Path()+".old"
		if err := (vfs.OS{}).Exchange(f.Path(), f.Path()+".none"); errors.Is(err, errors.ErrUnsupported) {
			t.Skip("the system cannot exchange names")
		}
		put := func(path string) error { return os.WriteFile(path, []byte(theirs), 0o600) }
		if theirs == "" {
			put = func(path string) error { return os.Symlink(old, path) }
		}
		err := errors.Join(os.WriteFile(temp, []byte("new"), 0o600), os.Rename(f.Path(), old), put(f.Path()))
		must(t, err)
		is(t, "swap", f.swap(temp), store.ErrMisconfigured)
		is(t, "swap with a new file that has gone", f.swap(temp+".gone"), store.ErrMisconfigured)
		if content, err := os.ReadFile(temp); err != nil || string(content) != "new" {
			t.Errorf("the new file holds %q, %v", content, err)
		}
		if content, err := os.ReadFile(f.Path()); theirs != "" && (err != nil || string(content) != theirs) {
			t.Errorf("the other file holds %q, %v", content, err)
		}
		if _, err := os.Readlink(f.Path()); theirs == "" && err != nil {
			t.Errorf("the link is gone: %v", err)
		}
	}
}

// namesBeside returns the names of all files in the directory of f.
func namesBeside(t *testing.T, f *File) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.Path()))
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestCompactAfterChdir: a relative path means the directory in which the file was opened.
func TestCompactAfterChdir(t *testing.T) {
	there := t.TempDir()
	t.Chdir(there)
	f := openAt(t, "test.db", testOptions)
	mustUpdate(t, f, put("other", 1))
	here := t.TempDir()
	t.Chdir(here)
	if _, _, err := f.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{there: 1, here: 0} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%d files in the directory, want %d: %v, %v", len(entries), want, entries, err)
		}
	}
	if n := keysIn(t, f, "other"); n != 1 {
		t.Errorf("the bucket has %d keys, want 1", n)
	}
}
