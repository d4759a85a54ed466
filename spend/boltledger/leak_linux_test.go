package boltledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
)

// TestNothingIsLeftOpen opens and closes many stores with a ledger each. They must leave no file
// descriptor open.
func TestNothingIsLeftOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spend.db")
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cycle := func() {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := boltledger.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Decide(t.Context(), charge("card", "r1")); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	before := descriptors()
	for range 20 {
		cycle()
	}
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}
