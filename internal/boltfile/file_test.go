package boltfile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

func TestUpdate(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("other", 3))
	failed := errors.New("failed")
	x := []byte("x")
	for _, c := range []struct {
		name string
		fn   func(b *bbolt.Bucket) (bool, error)
		want error
	}{
		{"an error rolls back", func(b *bbolt.Bucket) (bool, error) {
			return true, errors.Join(b.Put(x, nil), failed)
		}, failed},
		{"a function that reports no change is not committed", func(b *bbolt.Bucket) (bool, error) {
			return false, b.Put(x, nil)
		}, nil},
		{"a guarded panic rolls back", func(b *bbolt.Bucket) (bool, error) {
			return true, f.Guard(func() error { _ = b.Put(x, nil); panic("no page") })
		}, store.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := f.Update(func(tx *bbolt.Tx) (bool, error) { return c.fn(tx.Bucket([]byte("other"))) })
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if n := keysIn(t, f, "other"); n != 3 {
				t.Errorf("the bucket has %d keys, want the 3 of before", n)
			}
		})
	}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("a panic of an application's code did not come through")
			}
		}()
		_ = f.Update(func(*bbolt.Tx) (bool, error) { panic("boom") })
	}()
	is(t, "View", f.View(func(*bbolt.Tx) error { return failed }), failed)
	is(t, "View that panics", f.View(func(*bbolt.Tx) error { panic("no page") }), store.ErrCorrupt)
	path := f.Path()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	if n := keysIn(t, openAt(t, path, testOptions), "other"); n != 3 {
		t.Errorf("after a restart the bucket has %d keys, want 3", n)
	}
}

// TestLock: a caller waits for the lock as long as its context lasts.
func TestLock(t *testing.T) {
	f := openTemp(t)
	if err := f.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	is(t, "Lock", f.Lock(ctx), context.DeadlineExceeded)
	is(t, "Verify", f.Verify(ctx), context.DeadlineExceeded)
	_, _, err := f.Compact(ctx)
	is(t, "Compact", err, context.DeadlineExceeded)
	if err := f.View(nothing); err != nil {
		t.Errorf("a reader waits for nobody: %v", err)
	}
	f.Unlock()
	mustUpdate(t, f, put("other", 1))
}

func TestJoin(t *testing.T) {
	db := openApp(t)
	f := join(t, db)
	if f.Owned() || f.Path() != db.Path() {
		t.Errorf("owned %v, path %q; want an application's file at %q", f.Owned(), f.Path(), db.Path())
	}
	mustUpdate(t, f, put("ours", 100))
	mustUpdate(t, f, func(tx *bbolt.Tx) error { // Verify must leave the application's buckets alone
		b, err := tx.CreateBucket([]byte("theirs"))
		return errors.Join(err, b.Put([]byte("key"), []byte("value")))
	})
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	_, _, err := f.Compact(t.Context())
	is(t, "Compact", err, errors.ErrUnsupported)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is(t, "Verify with a context that has ended", f.visitBucketsOf(ctx), context.Canceled)
	mustUpdate(t, f, func(tx *bbolt.Tx) error { return tx.Bucket(ours).Put([]byte("key"), []byte("value")) })
	is(t, "Verify of a damaged value", f.Verify(t.Context()), store.ErrCorrupt)
	is(t, "CheckBuckets", f.CheckBuckets(f.layout.Buckets(), f.layout.NewCheck()), store.ErrCorrupt)
	mustUpdate(t, f, func(tx *bbolt.Tx) error { return tx.DeleteBucket(ours) })
	is(t, "Verify of a missing bucket", f.Verify(t.Context()), store.ErrCorrupt)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	if err := db.View(nothing); err != nil {
		t.Errorf("the application's database is closed: %v", err)
	}
}

// visitBucketsOf visits the layout's buckets in a transaction of its own.
func (f *File) visitBucketsOf(ctx context.Context) error {
	return f.View(func(tx *bbolt.Tx) error {
		return visitBuckets(ctx, tx, f.layout.Buckets(), (&testCheck{}).Visit)
	})
}

func TestReadOnly(t *testing.T) {
	db := openApp(t)
	path := db.Path()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	err = update(Join(db, testLayout{}, testOptions), testLayout{}.Create)
	is(t, "Update", err, store.ErrUnavailable)
	is(t, "Update", err, berrors.ErrDatabaseReadOnly)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	is(t, "View of a closed database", Join(db, testLayout{}, testOptions).View(nothing), store.ErrUnavailable)
}

func TestWithin(t *testing.T) {
	db, other := openApp(t), openApp(t)
	f, owned := join(t, db), openTemp(t)
	failed := errors.New("failed")
	do := func() error { return failed }
	tx, err := db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = foreign.Rollback() }()
	is(t, "a question", f.Within(tx, false, do), failed)
	is(t, "a panic", f.Within(tx, false, func() error { panic("no page") }), store.ErrCorrupt)
	is(t, "a write in a read-only transaction", f.Within(tx, true, do), berrors.ErrTxNotWritable)
	is(t, "a write in a read-only transaction", f.Within(tx, true, do), store.ErrUnavailable)
	is(t, "another database", f.Within(foreign, false, do), store.ErrUnavailable)
	is(t, "a file of its own", owned.Within(tx, false, do), store.ErrUnavailable)
	is(t, "no transaction", f.Within(nil, false, do), store.ErrClosed)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	is(t, "a transaction that has ended", f.Within(tx, false, do), store.ErrClosed)
	f.Refuse("the disk failed")
	is(t, "a file that refuses all work", f.Within(tx, false, do), store.ErrUnavailable)
}

// TestCommitThatFails: a disk without room applies nothing, and the file goes on when it has room
// again.
func TestCommitThatFails(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("other", 1))
	keys := 100_000
	if testing.Short() {
		keys = 20_000
	}
	f.db.MaxSize = 1
	err := update(f, put("more", keys))
	is(t, "Update", err, store.ErrUnavailable)
	if errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("error %v, want it known that nothing was applied", err)
	}
	if n := keysIn(t, f, "more"); n != 0 {
		t.Errorf("%d keys of the failed transaction are stored", n)
	}
	f.db.MaxSize = 0
	mustUpdate(t, f, put("more", keys))
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestVerifyOfAnOpenFile finds damage that comes about while the file is open.
func TestVerifyOfAnOpenFile(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("ours", 1000))
	if _, err := f.file.WriteAt(make([]byte, 8), pageHeader); err != nil { // the magic number of the first meta page
		t.Fatal(err)
	}
	is(t, "Verify", f.Verify(t.Context()), store.ErrCorrupt)
}

// TestPoisoned: a panic at a bad moment leaves bbolt's locks locked. The file must refuse all work,
// and Close must not wait for ever.
func TestPoisoned(t *testing.T) {
	var log bytes.Buffer
	o := testOptions
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f := openTemp(t)
	f.options = o
	mustUpdate(t, f, put("other", 1))
	is(t, "stop", f.stop(guard(func() error { panic("at a bad moment") })), store.ErrCorrupt)
	_, _, compactErr := f.Compact(t.Context())
	for name, err := range map[string]error{
		"Usable": f.Usable(), "View": f.View(nothing), "Update": update(f, nothing),
		"Verify": f.Verify(t.Context()), "Compact": compactErr,
	} {
		is(t, name, err, store.ErrCorrupt)
		is(t, name, err, store.ErrUnavailable)
		if !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: error %q does not tell the remedy", name, err)
		}
	}
	if !strings.Contains(log.String(), "at a bad moment") {
		t.Errorf("the log does not tell of the damage: %q", log.String())
	}
	tx, err := f.db.Begin(true) // the panic would have left this lock locked
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	_ = f.db.Close()
	if n := keysIn(t, openAt(t, f.Path(), testOptions), "other"); n != 1 {
		t.Errorf("after a restart the bucket has %d keys, want 1", n)
	}
}
