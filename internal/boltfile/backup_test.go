package boltfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// backup returns a backup of f.
func backup(t testing.TB, f *File) []byte {
	t.Helper()
	s, err := f.Snapshot()
	must(t, err)
	var b bytes.Buffer
	n, err := s.Backup(t.Context(), &b, nothing)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("a backup of %d bytes returned %d, %v", b.Len(), n, err)
	}
	return b.Bytes()
}

// TestWriteNew makes a file of a backup, or none.
func TestWriteNew(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("ours", 100))
	whole := backup(t, f)
	errWrite := errors.New("the writer failed")
	writes := func(b []byte) func(vfs.File) error {
		return func(file vfs.File) error { _, err := file.WriteAt(b, 0); return err }
	}
	for _, c := range []struct {
		name  string
		write func(vfs.File) error
		want  error
	}{
		{"a whole file", writes(whole), nil},
		{"a part of a file", writes(whole[:len(whole)/2]), store.ErrCorrupt},
		{"nothing", writes(nil), store.ErrCorrupt},
		{"a writer that fails", func(vfs.File) error { return errWrite }, errWrite},
		{"a file that the writer has closed", func(file vfs.File) error { return file.Close() }, os.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "new.db")
			values, err := WriteNew(t.Context(), path, c.write)
			is(t, "WriteNew", err, c.want)
			if c.want != nil {
				if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
					t.Errorf("%v, %v are left of it; want nothing", left, err)
				}
				return
			}
			if values == nil {
				t.Error("no values are counted")
			}
			again := openAt(t, path, testOptions)
			if n := keysIn(t, again, "ours"); n != 100 {
				t.Errorf("%d keys are in the new file; want 100", n)
			}
			_, err = WriteNew(t.Context(), path, c.write)
			is(t, "WriteNew over a file", err, ErrExists)
		})
	}
	_, err := WriteNew(t.Context(), filepath.Join(t.TempDir(), "nowhere", "new.db"), writes(whole))
	is(t, "WriteNew into a directory that is not there", err, store.ErrMisconfigured)
	path := filepath.Join(t.TempDir(), "new.db")
	_, err = WriteNew(t.Context(), path, func(file vfs.File) error {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			return err
		}
		return writes(whole)(file)
	})
	is(t, "WriteNew while somebody else makes the file", err, ErrExists)
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the other's file is now %q, %v", b, err)
	}
}
