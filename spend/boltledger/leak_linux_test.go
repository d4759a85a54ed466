package boltledger_test

import (
	"os"
	"path/filepath"
	"testing"
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
		s, l, err := openBoth(path, nil)
		must(t, err)
		must(t, l.Decide(t.Context(), charge("card", "r1")))
		must(t, l.Close())
		_, _, err = s.Compact(t.Context())
		must(t, err)
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
