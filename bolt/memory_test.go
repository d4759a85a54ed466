package bolt

import (
	"context"
	"fmt"
	"testing"

	"github.com/brimgo/brim/store"
)

// A view is kept for the next transaction. Its memory must not grow with the largest transaction
// that there ever was, and must not include the pages of the last one.
func TestViewForgets(t *testing.T) {
	for _, c := range []struct {
		name       string
		keys, kept int
	}{
		{"small transactions use the entries again", 100, 100},
		{"the largest transaction whose entries are kept", keepEntries, keepEntries},
		{"a larger transaction leaves nothing", keepEntries + 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTemp(t, nil)
			txn := make(store.Txn, c.keys)
			for i := range txn {
				txn[i] = op(steady, fmt.Sprint(i), 1, store.Always)
			}
			if _, err := s.Apply(context.Background(), txn); err != nil {
				t.Fatal(err)
			}
			if err := s.logged.mem.lock(context.Background()); err != nil { // waits for the end of the flush
				t.Fatal(err)
			}
			defer s.logged.mem.unlock()
			for _, v := range []*view{&s.logged.view, &s.logged.mem.view} {
				if n := len(v.pool); n != c.kept {
					t.Errorf("the view keeps %d entries, want %d", n, c.kept)
				}
				keepsNothing(t, v)
			}
		})
	}
}

// TestFlushForgets: a store without a journal keeps no keys and no pages of the last flush.
func TestFlushForgets(t *testing.T) {
	s := openTemp(t, &Options{NoJournal: true})
	fillup(t, s, "k", 1)
	defer holdUp(t, s)() // after the end of the flush
	if len(s.view.pool) != 1 {
		t.Errorf("the view keeps %d entries, want 1", len(s.view.pool))
	}
	keepsNothing(t, &s.view)
}

// keepsNothing checks that a view refers neither to keys nor to pages of a transaction that has
// ended.
func keepsNothing(t *testing.T, v *view) {
	t.Helper()
	if len(v.entries) != 0 || v.records != nil || v.meta != nil {
		t.Errorf("the view keeps %d entries, and the pages of the transaction: %v; want 0, false",
			len(v.entries), v.records != nil || v.meta != nil)
	}
	for _, e := range v.pool {
		if *e != (entry{}) {
			t.Fatalf("an entry keeps %+v; want nothing, because it refers to a caller's key", e)
		}
	}
}

// An application may keep the store of an Update, or a store that it has closed.
func TestEndedStoresKeepNothing(t *testing.T) {
	s := openTemp(t, nil)
	var kept *joined
	err := s.Update(context.Background(), func(j store.Store) error {
		kept = j.(*joined)
		fillup(t, j, "k", 1)
		if len(kept.view.entries) != 1 {
			t.Errorf("%d entries during the transaction; want 1", len(kept.view.entries))
		}
		return nil
	})
	if err != nil || kept.view != nil {
		t.Errorf("the store of an ended Update keeps %+v, %v; want no view", kept.view, err)
	}
	r, err := OpenRelaxed(t.TempDir()+"/relaxed.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		fillup(t, r, fmt.Sprint(i), 1)
	}
	if n := cachedBuckets(r, 100); n != 100 {
		t.Errorf("%d buckets in memory; want 100", n)
	}
	closeStore(t, r)
	if n := cachedBuckets(r, 100); n != 0 {
		t.Errorf("a closed store keeps %d buckets in memory; want 0", n)
	}
	_, err = r.Read(context.Background(), steady.For("1"))
	failsWith(t, err, store.ErrClosed)
}

// cachedBuckets returns the number of buckets that r has in memory. It counts at most most of them
// in a section.
func cachedBuckets(r *Relaxed, most int) (n int) {
	for i := range r.mem.sections {
		p := &r.mem.sections[i]
		p.mu.Lock()
		n += min(len(p.buckets), most)
		p.mu.Unlock()
	}
	return n
}
