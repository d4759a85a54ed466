package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLayout has one bucket, whose values are equal to their keys.
type testLayout struct{}

var ours = []byte("ours")

func (testLayout) Create(tx *bbolt.Tx) error {
	_, err := tx.CreateBucket(ours)
	return err
}

func (testLayout) Buckets() [][]byte { return [][]byte{ours} }
func (testLayout) NewCheck() Check   { return &testCheck{} }

type testCheck struct {
	keys   int
	damage error
}

func (c *testCheck) Visit(bucket, key, value []byte) {
	if !bytes.Equal(bucket, ours) {
		return
	}
	c.keys++
	if !bytes.Equal(key, value) && c.damage == nil {
		c.damage = Damagef("a value differs from its key")
	}
}

func (c *testCheck) Err() error   { return c.damage }
func (c *testCheck) Damaged() int { return 0 }

var testOptions = Options{LockTimeout: time.Minute, FileMode: 0o600, Logger: slog.New(slog.DiscardHandler)}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openAt(t testing.TB, path string, o Options) *File {
	t.Helper()
	f, err := Open(path, testLayout{}, o)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func openTemp(t testing.TB) *File {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.db"), testOptions)
}

// openApp opens a database as an application has it.
func openApp(t testing.TB) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// join returns a File over db with its bucket created.
func join(t testing.TB, db *bbolt.DB) *File {
	t.Helper()
	f := Join(db, testLayout{}, testOptions)
	must(t, update(f, testLayout{}.Create))
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// update runs fn in a transaction and commits it.
func update(f *File, fn func(tx *bbolt.Tx) error) error {
	if err := f.Lock(context.Background()); err != nil {
		return err
	}
	defer f.Unlock()
	return f.Update(func(tx *bbolt.Tx) (bool, error) {
		return true, f.Guard(func() error { return fn(tx) })
	})
}

// put returns a function that puts n keys, equal to their values, into a bucket.
func put(bucket string, n int) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		for i := 0; i < n && err == nil; i++ {
			key := fmt.Appendf(nil, "%06d", i)
			err = b.Put(key, key)
		}
		return err
	}
}

func mustUpdate(t testing.TB, f *File, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	must(t, update(f, fn))
}

// keysIn returns the number of keys in a bucket.
func keysIn(t testing.TB, f *File, bucket string) (n int) {
	t.Helper()
	err := f.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(bucket)); b != nil {
			n = b.Stats().KeyN
		}
		return nil
	})
	must(t, err)
	return n
}

func is(t testing.TB, name string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", name, err, want)
	}
}

// nothing is a function for View that does nothing.
func nothing(*bbolt.Tx) error { return nil }

// closed checks that all methods of f but Close answer ErrClosed.
func closed(t testing.TB, f *File) {
	t.Helper()
	_, _, compactErr := f.Compact(t.Context())
	_, snapshotErr := f.Snapshot()
	for name, err := range map[string]error{
		"View":     f.View(nothing),
		"Update":   f.Update(func(*bbolt.Tx) (bool, error) { return false, nil }),
		"Lock":     f.Lock(t.Context()),
		"Verify":   f.Verify(t.Context()),
		"Within":   f.Within(nil, false, func() error { return nil }),
		"Compact":  compactErr,
		"Snapshot": snapshotErr,
	} {
		is(t, name, err, store.ErrClosed)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
