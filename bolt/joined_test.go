package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

func newOver(t testing.TB, db *bbolt.DB, o *Options) *Store {
	t.Helper()
	s, err := New(db, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestNewLeavesTheDatabaseOpen(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 2)
	closeStore(t, s)
	levelIs(t, newOver(t, db, nil), "k", 2)
	other := newOver(t, db, &Options{Name: "other"})
	levelIs(t, other, "k", 0)
	must(t, other.Verify(context.Background()))
	_, _, err := other.Compact(context.Background())
	failsWith(t, err, errors.ErrUnsupported, "the database is the application's")
	_, err = other.Backup(context.Background(), &bytes.Buffer{})
	failsWith(t, err, errors.ErrUnsupported, "Tx.WriteTo")
}

func TestNewRefuses(t *testing.T) {
	_, err := New(nil, nil)
	failsWith(t, err, store.ErrMisconfigured, "nil")
	path := filepath.Join(t.TempDir(), "app.db")
	for _, readOnly := range []bool{false, true} {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly, Timeout: time.Second})
		must(t, err)
		if readOnly {
			_, err := New(db, nil)
			failsWith(t, err, store.ErrMisconfigured, "for reading only")
		}
		must(t, db.Close())
		_, err = New(db, nil)
		failsWith(t, err, store.ErrMisconfigured, "not open")
	}
}

// TestWith: a fill commits with the rows that it pays for, or not at all.
func TestWith(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	ctx := context.Background()
	rollBack := errors.New("roll back")
	charge := func(n float64, end error) error {
		return db.Update(func(tx *bbolt.Tx) error {
			j := s.With(tx)
			before, err := j.Read(ctx, store.Bucket{Key: "k"})
			if err != nil {
				return err
			}
			for range 2 { // a later call of the transaction sees an earlier one's
				if _, err := j.Fill(ctx, op(steady, "k", n/2, store.IfFits)); err != nil {
					return err
				}
			}
			after, err := j.Read(ctx, store.Bucket{Key: "k"})
			if err != nil {
				return err
			}
			if after[0].Level != before[0].Level+n {
				t.Errorf("level %v after %v, want %v more", after[0].Level, before[0].Level, n)
			}
			entries, err := paging.All(ctx, j, "")
			if err != nil || len(entries) != 1 || entries[0].Level != after[0].Level {
				t.Errorf("scan: %v, %v; want the changed bucket alone", entries, err)
			}
			rows, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			if err := rows.Put([]byte("row"), []byte("paid")); err != nil {
				return err
			}
			return end
		})
	}
	if err := charge(4, rollBack); err != rollBack {
		t.Fatal(err)
	}
	levelIs(t, s, "k", 0)
	must(t, charge(4, nil))
	levelIs(t, s, "k", 4)
	if err := charge(2, rollBack); err != rollBack {
		t.Fatal(err)
	}
	levelIs(t, s, "k", 4)
	fillup(t, s, "k", 1)
	must(t, s.Verify(ctx))
	err := db.Update(func(tx *bbolt.Tx) error {
		j := s.With(tx)
		results, err := j.Apply(ctx, store.Txn{op(steady, "k", 1, store.Always), op(steady, "l", 1, store.Always)})
		if err != nil || !results[0].Accepted {
			t.Errorf("apply: %v, %v; want it accepted", results, err)
		}
		if err := j.Delete(ctx, "k"); err != nil {
			t.Error(err)
		}
		if n, err := j.Prune(ctx); n != 0 || err != nil {
			t.Errorf("pruned %d buckets, %v; want 0", n, err)
		}
		return j.Close()
	})
	must(t, err)
	levelIs(t, s, "k", 0)
	levelIs(t, s, "l", 1)
	must(t, s.Verify(ctx))
}

// TestWithAfterAnError: a transaction goes on after [store.ErrNotHeld], and knows other errors.
func TestWithAfterAnError(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	ctx := t.Context()
	tooMuch := store.Op{Bucket: steady.For("k"), Hold: -2}
	err := db.Update(func(tx *bbolt.Tx) error {
		j := s.With(tx)
		fillup(t, j, "k", 1)
		_, err := j.Fill(ctx, tooMuch)
		failsWith(t, err, store.ErrNotHeld, "bolt: fill: ")
		results, err := j.Apply(ctx, store.Txn{tooMuch}, store.Txn{op(steady, "l", 1, store.IfFits)})
		if err != nil || !errors.Is(results[0].Err, store.ErrNotHeld) || results[1].Err != nil {
			t.Errorf("apply: %+v, %v; want ErrNotHeld for the first", results, err)
		}
		fillup(t, j, "k", 1)
		return nil
	})
	must(t, err)
	levelIs(t, s, "k", 2)
	levelIs(t, s, "l", 1)
	damageRecord(t, db, "k")
	err = db.Update(func(tx *bbolt.Tx) error {
		j := s.With(tx)
		_, err := j.Fill(ctx, op(steady, "k", 1, store.Always))
		failsWith(t, err, store.ErrCorrupt, "bolt: fill: ")
		_, err = j.Read(ctx, steady.For("k"))
		failsWith(t, err, store.ErrCorrupt, "bolt: read: ")
		_, err = paging.All(ctx, j, "")
		failsWith(t, err, store.ErrCorrupt, "bolt: visit: ")
		if n, err := j.Prune(ctx); n != 0 || err != nil {
			t.Errorf("prune: %d, %v; want it to pass over the damage", n, err)
		}
		return j.Delete(ctx, "k")
	})
	must(t, err)
	levelIs(t, s, "k", 0)
	must(t, s.Verify(ctx))
}

// TestWithReadOnly: a store within a read-only transaction answers reads and questions, and refuses
// to write.
func TestWithReadOnly(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 2)
	ask := store.Txn{op(steady, "k", 1, store.Ask), op(steady, "none", 1, store.Ask)}
	must(t, db.View(func(tx *bbolt.Tx) error {
		j := s.With(tx)
		levelIs(t, j, "k", 2)
		if entries, err := paging.All(t.Context(), j, ""); err != nil || len(entries) != 1 || entries[0].Level != 2 {
			t.Errorf("scan: %+v, %v; want the bucket", entries, err)
		}
		if st := mustFill(t, j, ask[0]); !st.Accepted || st.Level != 2 {
			t.Errorf("a question: %+v", st)
		}
		if results := mustApply(t, j, ask, ask); !results[1].Accepted {
			t.Errorf("questions: %+v", results)
		}
		_, err := j.Apply(t.Context(), ask, store.Txn{op(steady, "k", 1, store.IfFits)})
		failsWith(t, err, berrors.ErrTxNotWritable)
		for _, c := range callsOf(j) {
			switch c.name {
			case "read", "read of no buckets", "visit", "size", "apply of no transactions":
			default:
				t.Run(c.name, func(t *testing.T) {
					c.refuses(t, t.Context(), berrors.ErrTxNotWritable, "begin a writable transaction")
				})
			}
		}
		return nil
	}))
	levelIs(t, s, "k", 2)
}

// TestWithRefuses: a store that is closed, or whose transaction has ended or is one of another
// database, refuses all work. So does one whose file may be older than its answers.
func TestWithRefuses(t *testing.T) {
	db, otherDB := openApp(t), openApp(t)
	s, owned := newOver(t, db, nil), openTemp(t, nil)
	refuses := func(s *Store, tx *bbolt.Tx, target error, words ...string) {
		t.Helper()
		_, err := s.With(tx).Read(t.Context(), store.Bucket{Key: "k"})
		failsWith(t, err, target, words...)
	}
	var ended *bbolt.Tx
	view := func(db *bbolt.DB, fn func(tx *bbolt.Tx)) {
		must(t, db.View(func(tx *bbolt.Tx) error { fn(tx); ended = tx; return nil }))
	}
	view(db, func(tx *bbolt.Tx) { refuses(owned, tx, store.ErrMisconfigured, "another database") })
	refuses(s, ended, store.ErrClosed, "has ended")
	refuses(s, nil, store.ErrClosed)
	view(otherDB, func(tx *bbolt.Tx) { refuses(s, tx, store.ErrMisconfigured, "another database") })
	s.db.File().Refuse("a commit may or may not last")
	view(db, func(tx *bbolt.Tx) { refuses(s, tx, store.ErrMisconfigured, "may or may not last") })
	closeStore(t, s)
	view(db, func(tx *bbolt.Tx) { refuses(s, tx, store.ErrClosed) })
}

func TestUpdate(t *testing.T) {
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.Now})
	ctx := context.Background()
	leaky := store.Limit{Capacity: 10, LeakRate: 1}
	var kept store.Store
	err := s.Update(ctx, func(j store.Store) error {
		kept = j
		for i := range 3000 {
			key := fmt.Sprintf("key %d", i%7)
			if _, err := j.Fill(ctx, op(leaky, key, 1, store.IfFits)); err != nil {
				return err
			}
			if i%1000 == 500 { // a cursor sees the decisions so far
				entries, err := paging.All(ctx, j, "")
				if err != nil || len(entries) != 7 {
					t.Errorf("%d entries, %v; want 7", len(entries), err)
				}
			}
		}
		st, err := j.Fill(ctx, op(leaky, "key 0", 1, store.IfFits))
		if err != nil || st.Accepted {
			t.Errorf("fill: %+v, %v; want a refusal", st, err)
		}
		clock.Advance(4 * time.Second) // the clock is read at each call
		st, err = j.Fill(ctx, op(leaky, "key 0", 4, store.IfFits))
		if err != nil || !st.Accepted || st.Level != 10 {
			t.Errorf("fill: %+v, %v; want it accepted", st, err)
		}
		return j.Delete(ctx, "key 6")
	})
	must(t, err)
	_, err = kept.Fill(ctx, op(leaky, "key 0", 1, store.IfFits))
	failsWith(t, err, store.ErrClosed)
	levelIs(t, s, "key 0", 10)
	levelIs(t, s, "key 1", 6)
	levelIs(t, s, "key 6", 0)
	must(t, s.Verify(ctx))
}

// TestUpdateEndsWithALook: a Scan or Prune within Update writes the changes to the transaction, to
// look at them. They are committed although fn changes nothing after that.
func TestUpdateEndsWithALook(t *testing.T) {
	s := openTemp(t, nil)
	ctx := t.Context()
	for i, look := range []func(j store.Store) error{
		func(j store.Store) error { _, err := paging.All(ctx, j, ""); return err },
		func(j store.Store) error { _, err := j.Prune(ctx); return err },
	} {
		err := s.Update(ctx, func(j store.Store) error {
			fillup(t, j, "k", 1)
			if err := look(j); err != nil {
				return err
			}
			fillup(t, j, "k", 1)
			return look(j)
		})
		must(t, err)
		levelIs(t, s, "k", float64(2*(i+1)))
	}
	before := bytesOf(t, s.db.File().Path())
	err := s.Update(ctx, func(j store.Store) error { _, err := paging.All(ctx, j, ""); return err })
	if err != nil || string(before) != string(bytesOf(t, s.db.File().Path())) {
		t.Errorf("an Update that only looks: %v; want the file as it was", err)
	}
	must(t, s.Verify(ctx))
}

// TestUpdateRollsBack: an error, a panic or the end of the context drops the changes of an Update,
// and no others.
func TestUpdateRollsBack(t *testing.T) {
	s := openTemp(t, nil)
	for range 3 { // the journal has the last one
		fillup(t, s, "k", 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bad := errors.New("bad")
	before := bytesOf(t, s.db.File().Path())
	if err := s.Update(ctx, func(j store.Store) error { fillup(t, j, "k", 1); return bad }); err != bad {
		t.Errorf("error %v, want the error of fn itself", err)
	}
	must(t, s.Update(ctx, func(store.Store) error { return nil }))
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic of fn did not go on")
			}
		}()
		_ = s.Update(ctx, func(j store.Store) error { fillup(t, j, "k", 1); panic("boom") })
	}()
	err := s.Update(ctx, func(j store.Store) error { fillup(t, j, "k", 1); cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: error %v", err)
	}
	levelIs(t, s, "k", 3)
	if string(before) != string(bytesOf(t, s.db.File().Path())) {
		t.Error("the file was written to")
	}
	closeStore(t, s)
	levelIs(t, openAt(t, s.db.File().Path(), nil), "k", 3)
}

// TestUpdateAmongFills: concurrent fills and updates lose none of each other's changes.
func TestUpdateAmongFills(t *testing.T) {
	s := openTemp(t, nil)
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				fillup(t, s, "k", 1)
			}
		})
		wg.Go(func() {
			for range 5 {
				if err := s.Update(ctx, func(j store.Store) error {
					for range 4 {
						fillup(t, j, "k", 1)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	levelIs(t, s, "k", 8*40)
	must(t, s.Verify(ctx))
}
