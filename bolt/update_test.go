package bolt

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// TestUpdatePanicKeepsChanges: a panic of the function of an Update goes on, and drops its changes
// alone.
func TestUpdatePanicKeepsChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.db")
	s := openAt(t, path, nil)
	for range 3 { // the journal has the last one
		fillup(t, s, "k", 1)
	}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic of fn did not go on")
			}
		}()
		_ = s.Update(context.Background(), func(j store.Store) error { fillup(t, j, "k", 1); panic("boom") })
	}()
	levelIs(t, s, "k", 3)
	closeStore(t, s)
	s = openAt(t, path, nil)
	levelIs(t, s, "k", 3)
}

// TestUpdateOfACancelledContext does not decide, though nobody else does.
func TestUpdateOfACancelledContext(t *testing.T) {
	s := openTemp(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		err := s.db.Lock(ctx)
		if err == nil {
			s.db.Unlock()
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled context got the lock: %v", err)
		}
	}
}

// TestJoinedToNothing has an application remove the buckets in the transaction that it then joins.
func TestJoinedToNothing(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 1)
	_ = db.Update(func(tx *bbolt.Tx) error {
		if err := errors.Join(tx.DeleteBucket([]byte("brim")), tx.DeleteBucket([]byte("brim.meta"))); err != nil {
			t.Error(err)
		}
		for _, c := range callsOf(s.With(tx)) {
			if strings.HasPrefix(c.name, "fill") || c.name == "apply" || c.name == "read" {
				c.refuses(t, t.Context(), store.ErrCorrupt, `the buckets "brim" and "brim.meta" are missing`)
			}
		}
		return errors.New("roll back")
	})
	levelIs(t, s, "k", 1)
}

// TestReadSeesWholeTransactions reads two buckets while transactions change both.
func TestReadSeesWholeTransactions(t *testing.T) {
	s := openTemp(t, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			txn := store.Txn{op(steady, "a", 1, store.Always), op(steady, "b", 1, store.Always)}
			if _, err := s.Apply(t.Context(), txn); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		states, err := s.Read(t.Context(), steady.For("a"), steady.For("b"))
		if err != nil || states[0].Level != states[1].Level {
			t.Fatalf("levels %v and %v, %v", states[0].Level, states[1].Level, err)
		}
	}
}
