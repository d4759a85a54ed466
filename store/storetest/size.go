package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// size compares the sizes of an empty store and of one with many buckets, if the store tells them.
func (s *suite) size(t *testing.T) {
	st := s.openReal(t)
	s.closeAtEnd(t, &st)
	empty, err := st.Size(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log("left out because the store does not tell its size")
		return
	}
	if err != nil || empty < 0 {
		t.Fatalf("Size of an empty store: %d, %v", empty, err)
	}
	const keys, length = 2000, 400
	name := strings.Repeat("x", length-6)
	limit := store.Limit{Capacity: 10}
	for first := 0; first < keys; first += 100 {
		var txn store.Txn
		for i := range 100 {
			txn = append(txn, store.Op{Bucket: limit.For(fmt.Sprintf("%06d%s", first+i, name)), Amount: 1})
		}
		if res, err := st.Apply(t.Context(), txn); err != nil || !res[0].Accepted {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if err := touch(t.Context(), st, ""); err != nil { // the file has all decisions after it
		t.Fatal(err)
	}
	size, err := st.Size(t.Context())
	if err != nil || size < keys*length {
		t.Errorf("Size with %d keys of %d bytes: %d, %v; want at least that of the keys", keys, length, size, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Size(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Size with a cancelled context: %v, want context.Canceled", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Size(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Size after Close: %v, want ErrClosed", err)
	}
}
