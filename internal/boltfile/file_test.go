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
	must(t, f.Close())
	closed(t, f)
	if n := keysIn(t, openAt(t, path, testOptions), "other"); n != 3 {
		t.Errorf("after a restart the bucket has %d keys, want 3", n)
	}
}

// TestLock: a caller waits for the lock as long as its context lasts.
func TestLock(t *testing.T) {
	f := openTemp(t)
	must(t, f.Lock(t.Context()))
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

// TestWithin: in a transaction of the application, too, a panic of bbolt is damage.
func TestWithin(t *testing.T) {
	db := openApp(t)
	f := join(t, db)
	err := db.View(func(tx *bbolt.Tx) error { return f.Within(tx, false, func() error { panic("no page") }) })
	is(t, "Within", err, store.ErrCorrupt)
}

// TestCommitThatFails: a disk without room applies nothing, and the file goes on when it has room
// again.
func TestCommitThatFails(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("other", 1))
	const keys = 20_000
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
	must(t, f.Verify(t.Context()))
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
		if errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: error %q opens a limit, by damage", name, err)
		}
		if !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: error %q does not tell the remedy", name, err)
		}
	}
	if !strings.Contains(log.String(), "at a bad moment") {
		t.Errorf("the log does not tell of the damage: %q", log.String())
	}
	tx, err := f.db.Begin(true) // the panic would have left this lock locked
	must(t, err)
	must(t, f.Close())
	must(t, tx.Rollback())
	_ = f.db.Close()
	if n := keysIn(t, openAt(t, f.Path(), testOptions), "other"); n != 1 {
		t.Errorf("after a restart the bucket has %d keys, want 1", n)
	}
}
