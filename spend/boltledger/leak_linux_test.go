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
		must(t, err)
		return len(entries)
	}
	cycle := func() {
		s, err := bolt.Open(path, nil)
		must(t, err)
		l, err := boltledger.New(s, nil)
		must(t, err)
		must(t, l.Decide(t.Context(), charge("card", "r1")))
		must(t, l.Close())
		if _, _, err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(t, s.Close())
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
