package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// count is how many keys another package's bucket holds.
func count(t *testing.T, s *Store, name string) (n int) {
	t.Helper()
	err := s.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(name)); b != nil {
			n = b.Stats().KeyN
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func putOther(s *Store, name string, keys int) error {
	return s.Transact(func(tx *bbolt.Tx) (bool, error) {
		b, err := tx.CreateBucketIfNotExists([]byte(name))
		for i := 0; i < keys && err == nil; i++ {
			err = b.Put(fmt.Appendf(nil, "%06d", i), []byte("value"))
		}
		return true, err
	})
}

func TestTransact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := openAt(t, path, nil)
	if err := putOther(s, "other", 3); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	for _, test := range []struct {
		name string
		fn   func(b *bbolt.Bucket) (bool, error)
		want error
	}{
		{"an error rolls back", func(b *bbolt.Bucket) (bool, error) { return true, errors.Join(b.Put([]byte("x"), nil), failed) }, failed},
		{"what has not changed anything is not committed", func(b *bbolt.Bucket) (bool, error) { return false, b.Put([]byte("x"), nil) }, nil},
		{"a panic rolls back", func(b *bbolt.Bucket) (bool, error) { _ = b.Put([]byte("x"), nil); panic("no page") }, store.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := s.Transact(func(tx *bbolt.Tx) (bool, error) { return test.fn(tx.Bucket([]byte("other"))) })
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if n := count(t, s, "other"); n != 3 {
				t.Errorf("the bucket has %d keys, want the 3 of before", n)
			}
		})
	}
	if err := s.View(func(*bbolt.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("View: error %v, want that of its function", err)
	}
	if err := s.View(func(*bbolt.Tx) error { panic("no page") }); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("View: error %v, want ErrCorrupt", err)
	}
	// What others keep in the file lasts, and the store's own buckets beside it.
	b := store.Limit{Capacity: 10}.For("k")
	if _, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 4}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"Transact": func() error { return putOther(s, "other", 1) },
		"View":     func() error { return s.View(func(*bbolt.Tx) error { return nil }) },
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: error %v, want ErrClosed", name, err)
		}
	}
	s = openAt(t, path, nil)
	if n := count(t, s, "other"); n != 3 {
		t.Errorf("after a restart the bucket has %d keys, want 3", n)
	}
}

// Compacting keeps what other packages have in the file, sequence numbers and empty buckets too.
func TestCompactKeepsOthers(t *testing.T) {
	s := openTemp(t, nil)
	keys := copyBatch + copyBatch/2
	if err := errors.Join(putOther(s, "many", keys), putOther(s, "none", 0)); err != nil {
		t.Fatal(err)
	}
	err := s.Transact(func(tx *bbolt.Tx) (bool, error) { return true, tx.Bucket([]byte("none")).SetSequence(7) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "many"); n != keys {
		t.Errorf("%d keys are left of %d", n, keys)
	}
	err = s.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("none")); b == nil || b.Sequence() != 7 {
			t.Error("the empty bucket or its sequence is gone")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
