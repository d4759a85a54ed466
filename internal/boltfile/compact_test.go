package boltfile

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, f, put("ours", 10))
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
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
	is(t, "a context that ended", f.copyBuckets(ctx, openApp(t)), context.Canceled)
	full := openApp(t)
	full.MaxSize = 1
	mustUpdate(t, f, put("many", copyBatch))
	is(t, "a full disk", f.copyBuckets(t.Context(), full), store.ErrUnavailable)
	if err := os.Mkdir(f.compactPath(), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.Compact(t.Context())
	is(t, "a directory in the way", err, store.ErrUnavailable)
}

// TestReplaceThatFails: the old file stays in use if the new file cannot be renamed.
func TestReplaceThatFails(t *testing.T) {
	f := openTemp(t)
	mustUpdate(t, f, put("other", 1))
	is(t, "a new file that disappeared", f.replace(nil, openApp(t)), store.ErrUnavailable)
	if n := keysIn(t, f, "other"); n != 1 {
		t.Errorf("the bucket has %d keys, want 1", n)
	}
}
