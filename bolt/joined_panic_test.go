package bolt

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/store"
)

// TestUpdatePanicKeepsChanges: an Update takes the changes that only the journal has, to put them
// into its commit. If its function panics, they still have to come into the file.
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
		_ = s.Update(context.Background(), func(store.Store) error { panic("boom") })
	}()
	levelIs(t, s, "k", 3)
	closeStore(t, s)
	s = openAt(t, path, nil)
	levelIs(t, s, "k", 3)
}
