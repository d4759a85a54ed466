package boltfile

import (
	"os"
	"testing"

	"go.etcd.io/bbolt"
)

// TestMakeDurable: whatever the state of an application's database, MakeDurable changes no byte of
// it and leaves it usable.
func TestMakeDurable(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, db *bbolt.DB) *bbolt.DB
	}{
		{"as it is", func(_ *testing.T, db *bbolt.DB) *bbolt.DB { return db }},
		{"read-only", func(t *testing.T, db *bbolt.DB) *bbolt.DB {
			path := db.Path()
			must(t, db.Close())
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			return db
		}},
		{"moved", func(t *testing.T, db *bbolt.DB) *bbolt.DB {
			must(t, os.Rename(db.Path(), db.Path()+".moved"))
			return db
		}},
		{"moved, and another file in its place", func(t *testing.T, db *bbolt.DB) *bbolt.DB {
			must(t, os.Rename(db.Path(), db.Path()+".moved"))
			must(t, os.WriteFile(db.Path(), []byte("theirs"), 0o600))
			return db
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openApp(t)
			join(t, db)
			db = c.before(t, db)
			f := Join(db, testLayout{}, testOptions)
			before, _ := os.ReadFile(f.Path())
			must(t, f.MakeDurable())
			if after, _ := os.ReadFile(f.Path()); string(before) != string(after) {
				t.Error("the file was changed")
			}
			must(t, f.View(nothing))
			if !db.IsReadOnly() {
				mustUpdate(t, f, put("other", 1))
			}
		})
	}
}
