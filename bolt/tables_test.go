package bolt

import (
	"bytes"
	"errors"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/memtable"
)

// TestTablesWithoutAJournal: each update of a table is a commit of the file, unless its function
// fails or changes nothing.
func TestTablesWithoutAJournal(t *testing.T) {
	table, key := boltfile.NewTable("others"), []byte("key")
	failed := errors.New("failed")
	put := func(text string, err error) func(*memtable.View) error {
		return func(v *memtable.View) error {
			value := append([]byte(text), make([]byte, boltfile.SealSize)...)
			table.Seal(key, value)
			v.Table(table).Put(key, 1, value)
			return err
		}
	}
	s := openTemp(t, &Options{NoJournal: true})
	w := memtable.PartsOf(s).Tables
	if err := w.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.file.Update(func(tx *bbolt.Tx) (bool, error) {
		_, err := table.Create(tx)
		return true, err
	})
	w.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	commits := func() (n int) {
		if err := s.file.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		why    string
		update func(*memtable.View) error
		err    error
		stored string
		commit bool
	}{
		{"a value is put", put("one", nil), nil, "one", true},
		{"the function fails after it has put a value", put("two", failed), failed, "one", false},
		{"the function only looks", func(*memtable.View) error { return nil }, nil, "one", false},
		{"another value is put", put("three", nil), nil, "three", true},
	} {
		before := commits()
		if err := w.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := w.Update(c.update)
		w.Unlock()
		if !errors.Is(err, c.err) || commits() > before != c.commit {
			t.Errorf("%s: %v, and %d commits; want %v, and a commit: %v", c.why, err, commits()-before, c.err, c.commit)
		}
		err = w.View(func(v *memtable.View) error {
			if value := v.Table(table).Get(key, 1); !bytes.HasPrefix(value, []byte(c.stored)) {
				t.Errorf("%s: the file has %q, want %q", c.why, value, c.stored)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
