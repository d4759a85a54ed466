package boltfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

// TestCreateThatFails: no file is left behind, not even under its temporary name.
func TestCreateThatFails(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "test.db"), brokenLayout{}, testOptions)
	is(t, "Open", err, errNoBuckets)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

var errNoBuckets = errors.New("no buckets")

// brokenLayout cannot create its buckets.
type brokenLayout struct{ testLayout }

func (brokenLayout) Create(*bbolt.Tx) error { return errNoBuckets }

// TestFileError puts the system's errors to the function that explains them: root may do
// everything.
func TestFileError(t *testing.T) {
	for _, c := range []struct {
		err   error
		class error
		says  string
	}{
		{&fs.PathError{Op: "open", Path: "test.db", Err: syscall.EACCES}, store.ErrMisconfigured, "permission denied"},
		{&fs.PathError{Op: "open", Path: "test.db", Err: syscall.EISDIR}, store.ErrMisconfigured, "is a directory"},
		{&fs.PathError{Op: "open", Path: "test.db", Err: syscall.ENOENT}, store.ErrMisconfigured, "create the directory first"},
		{&fs.PathError{Op: "open", Path: "test.db", Err: syscall.EROFS}, store.ErrMisconfigured, syscall.EROFS.Error()},
		{&fs.PathError{Op: "open", Path: "test.db", Err: syscall.EMFILE}, store.ErrUnavailable, syscall.EMFILE.Error()},
		{&fs.PathError{Op: "write", Path: "test.db", Err: syscall.ENOSPC}, store.ErrUnavailable, syscall.ENOSPC.Error() + "; make room"},
		{&fs.PathError{Op: "sync", Path: "test.db", Err: syscall.EIO}, store.ErrUnavailable, syscall.EIO.Error()},
		{errors.New("file resize error: " + syscall.ENOSPC.Error()), store.ErrUnavailable, "; make room"}, // of bbolt
		{berrors.ErrMaxSizeReached, store.ErrUnavailable, "maximum size"},
		{lockedError(0), store.ErrUnavailable, "locked"},
		{errors.New("the cable is out"), store.ErrMisconfigured, "the cable is out"}, // an error that nobody knows
		{Damagef("a page is torn"), store.ErrCorrupt, "torn"},
		{Failed("not written", Damagef("a page is torn")), store.ErrCorrupt, "not written"},
	} {
		got := FileError(c.err)
		for _, class := range []error{store.ErrUnavailable, store.ErrMisconfigured, store.ErrCorrupt} {
			if errors.Is(got, class) != (class == c.class) {
				t.Errorf("%q: %v, want %v alone", c.says, got, c.class)
			}
		}
		is(t, c.says, got, c.err)
		if !strings.Contains(got.Error(), c.says) {
			t.Errorf("error %q does not say %q", got, c.says)
		}
		if again := FileError(got); again != got {
			t.Errorf("an explained error became %v", again)
		}
	}
}

func TestLinkNew(t *testing.T) {
	testTakesNoName(t, func(from, to string) error { return linkNew(vfs.OS{}, from, to) })
}

// testTakesNoName checks that link gives a file a new name, and never the name of another file.
func testTakesNoName(t *testing.T, link func(from, to string) error) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	content := func() string {
		c, _ := os.ReadFile(b)
		return string(c)
	}
	for _, p := range []string{a, b} {
		must(t, os.WriteFile(p, []byte(p), 0o600))
	}
	if err := link(a, b); !errors.Is(err, fs.ErrExist) || content() != b {
		t.Errorf("over a file: error %v, want ErrExist", err)
	}
	must(t, os.Remove(b))
	if err := link(a, b); err != nil || content() != a {
		t.Errorf("to a new name: %v", err)
	}
	is(t, "from no file", link(filepath.Join(dir, "gone"), filepath.Join(dir, "c")), fs.ErrNotExist)
}

// TestStaleMetaPage: an older meta page takes the place of a newer one. bbolt would go back to
// it, or not notice. Open refuses the file, or finds the last content.
func TestStaleMetaPage(t *testing.T) {
	f := openTemp(t)
	var images [][]byte // the file after each commit
	for n := 1; n <= 6; n++ {
		mustUpdate(t, f, put("other", n))
		content, err := os.ReadFile(f.Path())
		must(t, err)
		images = append(images, content)
	}
	must(t, f.Close())
	sound, err := os.ReadFile(f.Path())
	must(t, err)
	last, err := readMeta(bytes.NewReader(sound), int64(len(sound)))
	must(t, err)
	opened, refused := 0, 0
	for _, image := range images {
		for page := range 2 {
			stale := bytes.Clone(sound)
			at := page * last.pageSize
			copy(stale[at:], image[at:at+last.pageSize])
			path := filepath.Join(t.TempDir(), "stale.db")
			must(t, os.WriteFile(path, stale, 0o600))
			g, err := Open(path, testLayout{}, testOptions)
			if err != nil {
				refused++
				is(t, "Open", err, store.ErrCorrupt)
				if !strings.Contains(err.Error(), "do not follow each other") {
					t.Errorf("error %q does not tell the reason", err)
				}
				continue
			}
			opened++
			if n := keysIn(t, g, "other"); n != 6 {
				t.Errorf("%d keys, want the 6 of the last commit", n)
			}
			must(t, g.Close())
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d files were opened and %d refused; the test has not tested both", opened, refused)
	}
}
