package bolt

import (
	"fmt"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// TestPagesAreFilled: the pages of the records are not left half empty where no key will ever come,
// and keep room where keys come in between. Else the file would be several times as large.
func TestPagesAreFilled(t *testing.T) {
	const commits, each = 40, 50
	for _, c := range []struct {
		name  string
		key   func(i int) string
		least float64 // share of the pages that is in use
	}{
		{"keys come at the end", func(i int) string { return fmt.Sprintf("key %06d", i) }, 0.85},
		{"keys come anywhere", func(i int) string { return fmt.Sprintf("key %06d", i*7919%1_000_003) }, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := unsynced(openTemp(t, nil))
			for i := range commits {
				err := s.Update(t.Context(), func(j store.Store) error {
					fillup(t, j, "a", 1) // changes, and tells nothing of the keys that come
					for k := range each {
						fillup(t, j, c.key(i*each+k), 1)
					}
					return j.Delete(t.Context(), "absent")
				})
				must(t, err)
			}
			must(t, s.db.Checkpoint(t.Context()))
			err := s.db.File().View(func(tx *bbolt.Tx) error {
				stats := tx.Bucket([]byte(defaultName)).Stats()
				if used := float64(stats.LeafInuse) / float64(stats.LeafAlloc); used < c.least {
					t.Errorf("%.0f %% of %d pages are in use; want %.0f", 100*used, stats.LeafPageN, 100*c.least)
				}
				return nil
			})
			must(t, err)
		})
	}
}
