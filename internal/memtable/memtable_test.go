package memtable_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

var table = boltfile.NewTable("t")

// newFile returns a file with the table.
func newFile(t *testing.T) (*boltfile.File, *bbolt.DB) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "file"), 0o600, &bbolt.Options{
		NoSync: true, InitialMmapSize: 1 << 24, // a file that outgrows this would wait for the views
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = db.Update(func(tx *bbolt.Tx) error { _, err := table.Create(tx); return err })
	if err != nil {
		t.Fatal(err)
	}
	return boltfile.Join(db, nil, boltfile.Options{}), db
}

const group = 2 // the bytes of a key that name its group

func randomKey(r *rand.Rand) string { return fmt.Sprintf("%c/%03d", 'a'+r.IntN(3), r.IntN(40)) }

// check compares a view with a model.
func check(t *testing.T, r *rand.Rand, v *memtable.Table, want map[string]string) {
	t.Helper()
	for range 20 {
		key := randomKey(r)
		value := v.Get([]byte(key), group)
		if w, ok := want[key]; ok != (value != nil) || string(value) != w {
			t.Fatalf("Get(%s) is %q, want %q, %t", key, value, w, ok)
		}
	}
	from := randomKey(r)
	for _, down := range []bool{false, true} {
		var keys, got []string
		for key := range want {
			if key[:group] == from[:group] && (key < from) == down {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		c := v.Ascend([]byte(from[:group]), []byte(from))
		if down {
			slices.Reverse(keys)
			c = v.Descend([]byte(from[:group]), []byte(from))
		}
		for k, value := c.Next(); k != nil; k, value = c.Next() {
			if want[string(k)] != string(value) {
				t.Fatalf("%s has %q, want %q", k, value, want[string(k)])
			}
			got = append(got, string(k))
		}
		if !slices.Equal(got, keys) {
			t.Fatalf("from %s, down %t: %v, want %v", from, down, got, keys)
		}
	}
}

// older is a view that began some operations ago.
type older struct {
	want map[string]string
	look chan *rand.Rand
	done chan error
}

// TestModel compares views with a map while changes are published, frozen, written, dropped and
// read from a journal again. A view goes on to show the state at its beginning.
func TestModel(t *testing.T) {
	number, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", number)
	r := rand.New(rand.NewPCG(number, 1))
	for range 20 {
		file, db := newFile(t)
		tables := memtable.New()
		want := make(map[string]string)
		var journal [][]byte
		var views []*older
		end := func(o *older) {
			close(o.look)
			if err := <-o.done; err != nil {
				t.Fatal(err)
			}
		}
		for n := range 150 {
			switch r.IntN(8) {
			default:
				var c *memtable.Changes
				keep := r.IntN(5) > 0
				next := maps.Clone(want)
				err := tables.View(file, func(v *memtable.View) error {
					tab := v.Table(table)
					check(t, r, tab, next)
					for range r.IntN(6) {
						key := randomKey(r)
						if r.IntN(3) == 0 {
							delete(next, key)
							tab.Put([]byte(key), group, nil)
							continue
						}
						value := []byte(fmt.Sprint("value ", n, "........"))
						table.Seal([]byte(key), value)
						next[key] = string(value)
						tab.Put([]byte(key), group, value)
						check(t, r, tab, next)
					}
					c = v.Changes()
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if keep {
					want = next
					journal = append(journal, c.Append(nil))
					tables.Publish(c)
				}
			case 0: // write to the file, perhaps a part only
				held := tables.Hold()
				frozen := held.Freeze()
				held.Release()
				parts := frozen.Parts(1 + r.IntN(20))
				fail := r.IntN(3) == 0 && len(parts) > 0
				if fail {
					parts = parts[:r.IntN(len(parts))] // as if the next one had failed
				}
				for _, put := range parts {
					if err := db.Update(put); err != nil {
						t.Fatal(err)
					}
				}
				if !fail {
					drop(tables, frozen)
					journal = nil
				}
			case 1: // begin again with the file and the journal
				for _, o := range views {
					end(o)
				}
				views = nil
				tables = memtable.New()
				for _, body := range journal {
					if err := tables.Restore(body); err != nil {
						t.Fatal(err)
					}
				}
			case 2:
				o := &older{maps.Clone(want), make(chan *rand.Rand), make(chan error)}
				began := make(chan bool)
				go func(tables *memtable.Tables) {
					o.done <- tables.View(file, func(v *memtable.View) error {
						tab := v.Table(table)
						began <- true
						for r := range o.look {
							check(t, r, tab, o.want)
							o.look <- nil
						}
						return nil
					})
				}(tables)
				<-began
				if views = append(views, o); len(views) > 4 {
					end(views[0])
					views = views[1:]
				}
			}
			for _, o := range views {
				o.look <- r
				<-o.look
			}
		}
		for _, o := range views {
			end(o)
		}
		frozen := freeze(tables)
		for _, put := range frozen.Parts(1000) {
			if err := db.Update(put); err != nil {
				t.Fatal(err)
			}
		}
		drop(tables, frozen)
		got := make(map[string]string)
		var c boltfile.Census
		err := db.View(func(tx *bbolt.Tx) error {
			for _, name := range [][]byte{table.Name(), table.MetaName()} {
				err := tx.Bucket(name).ForEach(func(k, v []byte) error { c.Visit(name, k, v); return nil })
				if err != nil {
					return err
				}
			}
			return tx.Bucket(table.Name()).ForEach(func(k, v []byte) error { got[string(k)] = string(v); return nil })
		})
		if err := errors.Join(err, c.Err()); err != nil || !maps.Equal(got, want) {
			t.Fatalf("the file has %v, %v; want %v", got, err, want)
		}
	}
}

// TestGroups lists the groups with changes, whether they are new, published or frozen.
func TestGroups(t *testing.T) {
	file, _ := newFile(t)
	tables := memtable.New()
	put := func(keys ...string) {
		t.Helper()
		err := tables.View(file, func(v *memtable.View) error {
			for _, key := range keys {
				v.Table(table).Put([]byte(key), group, []byte("12345678"))
			}
			tables.Publish(v.Changes())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("a/1", "c/1")
	frozen := freeze(tables)
	put("b/1", "c/2")
	err := tables.View(file, func(v *memtable.View) error {
		v.Table(table).Put([]byte("d/1"), group, nil)
		if got := v.Table(table).Groups([]byte("b")); !slices.Equal(got, []string{"b/", "c/", "d/"}) {
			t.Errorf("the groups from b on are %v", got)
		}
		return nil
	})
	if err != nil || len(frozen) != 1 {
		t.Error(len(frozen), err)
	}
}

func freeze(tables *memtable.Tables) memtable.Frozen {
	held := tables.Hold()
	defer held.Release()
	return held.Freeze()
}

func drop(tables *memtable.Tables, f memtable.Frozen) {
	held := tables.Hold()
	defer held.Release()
	held.Drop(f)
}

// slowFile stops a view between its transaction and its changes.
type slowFile struct {
	*boltfile.File
	began, goOn chan struct{}
}

func (f slowFile) View(fn func(tx *bbolt.Tx) error) error {
	return f.File.View(func(tx *bbolt.Tx) error {
		close(f.began)
		<-f.goOn
		return fn(tx)
	})
}

// TestDropWaitsForViews: a view whose transaction is older than a write to the file finds the
// changes in memory.
func TestDropWaitsForViews(t *testing.T) {
	file, db := newFile(t)
	tables := memtable.New()
	key, value := []byte("a/1"), []byte("one.....")
	table.Seal(key, value)
	err := tables.View(file, func(v *memtable.View) error {
		v.Table(table).Put(key, group, bytes.Clone(value))
		tables.Publish(v.Changes())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	frozen := freeze(tables)
	slow := slowFile{file, make(chan struct{}), make(chan struct{})}
	var seen []byte
	looked, dropped := make(chan error), make(chan struct{})
	go func() {
		looked <- tables.View(slow, func(v *memtable.View) error {
			seen = bytes.Clone(v.Table(table).Get(key, group))
			return nil
		})
	}()
	<-slow.began
	for _, put := range frozen.Parts(10) {
		if err := db.Update(put); err != nil {
			t.Fatal(err)
		}
	}
	go func() { drop(tables, frozen); close(dropped) }()
	for range 1000 { // drop would have time enough
		runtime.Gosched()
	}
	close(slow.goOn)
	if err := <-looked; err != nil || !bytes.Equal(seen, value) {
		t.Errorf("the view has %q, %v; want %q", seen, err, value)
	}
	<-dropped
}

// FuzzRead reads arbitrary bytes: they are damage, or are written again.
func FuzzRead(f *testing.F) {
	f.Add([]byte{1, 't', 1, 2, 'a', '/', 2, 1, '1', 1, 1, 'v', 1, '2', 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := memtable.Read(body)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%x: %v; want ErrCorrupt", body, err)
			}
			return
		}
		if _, err := memtable.Read(c.Append(nil)); err != nil {
			t.Errorf("%x is written as %x: %v", body, c.Append(nil), err)
		}
	})
}

// TestWriteRefuses: changes of a table that the file does not have are damage.
func TestWriteRefuses(t *testing.T) {
	_, db := newFile(t)
	c, err := memtable.Read([]byte{1, 'u', 1, 2, 'a', '/', 1, 1, '1', 0})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(c.Write); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v; want ErrCorrupt", err)
	}
}
