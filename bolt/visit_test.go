package bolt

import (
	"fmt"
	"testing"

	"github.com/brimgo/brim/store"
)

// A read transaction that stays open keeps the file from using free pages again. So none is open
// while the function of Visit runs, and each covers a part of the buckets only.
func TestVisitKeepsNoTransaction(t *testing.T) {
	db := openApp(t) // a file of brim's own has no statistics
	s := newOver(t, db, nil)
	const buckets = 2500
	txns := make([]store.Txn, buckets)
	for i := range txns {
		txns[i] = store.Txn{op(steady, fmt.Sprintf("key %05d", i), 1, store.Always)}
	}
	mustApply(t, s, txns...)
	seen := 0
	began := db.Stats().TxN
	err := s.Visit(t.Context(), "key", func(e store.Entry) bool {
		if open := db.Stats().OpenTxN; open != 0 {
			t.Fatalf("%d transactions are open while the function runs", open)
		}
		seen++
		return true
	})
	if err != nil || seen != buckets {
		t.Errorf("visited %d of %d buckets, %v", seen, buckets, err)
	}
	if n := db.Stats().TxN - began; n != 3 {
		t.Errorf("%d read transactions for %d buckets; want one for each thousand", n, buckets)
	}
}

// An Ask is answered from the newest commit: it waits neither for the commit under way nor for a
// transaction of the application.
func TestAskWaitsForNobody(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 2)
	err := s.Update(t.Context(), func(in store.Store) error {
		if _, err := in.Fill(t.Context(), op(steady, "k", 1, store.Always)); err != nil {
			return err
		}
		for key, level := range map[string]float64{"k": 2, "none": 0} {
			st, err := s.Fill(t.Context(), op(steady, key, 1, store.Ask))
			if err != nil || !st.Accepted || st.Level != level {
				t.Errorf("a question while a writer works: %+v, %v; want level %v", st, err, level)
			}
		}
		st, err := s.Fill(t.Context(), store.Op{Bucket: store.Bucket{Key: "k"}, Mode: store.Unblock})
		if err != nil || !st.Accepted {
			t.Errorf("the end of no block while a writer works: %+v, %v", st, err)
		}
		return nil
	})
	must(t, err)
}
