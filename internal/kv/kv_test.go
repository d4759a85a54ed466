package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// options returns options with a small log.
func options(mode Mode) Options {
	return Options{
		Table: "main", Mode: mode, Segment: small, LockTimeout: time.Second, FileMode: 0o600,
		Logger: slog.New(slog.DiscardHandler), FS: noSync{}, IsRecord: func([]byte) bool { return true },
	}
}

// openDB opens a database with the tables "main" and "other".
func openDB(t testing.TB, path string, o Options) *DB {
	t.Helper()
	d, err := Open(path, o)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	other := d.Table("other")
	err = d.commit(func(btx *bbolt.Tx) error {
		if v, _, err := other.Find(btx); v != nil || err != nil {
			return err
		}
		_, err := other.Create(btx)
		return err
	})
	must(t, err)
	return d
}

func openTemp(t testing.TB, o Options) *DB {
	t.Helper()
	return openDB(t, filepath.Join(t.TempDir(), "limits.db"), o)
}

func change1(d *DB, fn func(tx *Tx) error) error {
	if err := d.Lock(context.Background()); err != nil {
		return err
	}
	defer d.Unlock()
	return d.Update(fn)
}

func put(t testing.TB, d *DB, key, value string) {
	t.Helper()
	table := d.Table("main")
	err := change1(d, func(tx *Tx) error { tx.Put(table, key, []byte(value)); return nil })
	must(t, err)
}

// killed copies the files of an open database, as a kill would leave them.
func killed(t testing.TB, d *DB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "limits.db")
	for _, suffix := range []string{"", LogSuffix} {
		b, err := os.ReadFile(d.file.Path() + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		must(t, err)
	}
	return path
}

// model is the content of two tables.
type model [2]map[string]string

func (m model) clone() model { return model{maps.Clone(m[0]), maps.Clone(m[1])} }

// is compares tx with the model: single keys, and walks in both directions.
func (m model) is(t *testing.T, tx *Tx, r *rand.Rand) {
	t.Helper()
	for i, table := range *tx.db.tables.Load() {
		keys := slices.Sorted(maps.Keys(m[i]))
		for range 5 {
			key := fmt.Sprint(r.IntN(100))
			v, err := tx.Get(table, key)
			if want, ok := m[i][key]; err != nil || string(v) != want || ok != (v != nil) {
				t.Fatalf("%s of %s is %q, %v; want %q", key, table.name, v, err, want)
			}
		}
		from := fmt.Sprint(r.IntN(100))
		at, _ := slices.BinarySearch(keys, from)
		up, err := tx.Ascend(table, from)
		must(t, err)
		down, err := tx.Descend(table, from)
		must(t, err)
		before := slices.Clone(keys[:at])
		slices.Reverse(before)
		for _, walk := range []struct {
			c    *Cursor
			want []string
		}{{up, keys[at:]}, {down, before}} {
			for _, want := range walk.want {
				key, v, ok, err := walk.c.Next()
				if err != nil || !ok || key != want || string(v) != m[i][key] {
					t.Fatalf("the walk comes to %q, %q, %v, %v; want %q", key, v, ok, err, want)
				}
			}
			if key, _, ok, err := walk.c.Next(); ok || err != nil {
				t.Fatalf("the walk goes on to %q, %v", key, err)
			}
		}
	}
}

// TestAgainstModel changes tables at random and compares all that can be read with a model: within
// the transaction, after it, in a view that began earlier, after a checkpoint, and in a copy of the
// files.
func TestAgainstModel(t *testing.T) {
	for _, mode := range []Mode{Log, Commit} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(mode, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(mode)))
				d := openTemp(t, options(mode))
				tables := [2]*Table{d.Table("main"), d.Table("other")}
				m := model{map[string]string{}, map[string]string{}}
				for step := range 150 {
					next := m.clone()
					undo := errors.New("undo")
					if r.IntN(5) > 0 {
						undo = nil
					}
					err := change1(d, func(tx *Tx) error {
						for range 1 + r.IntN(20) {
							i, key := r.IntN(2), fmt.Sprint(r.IntN(100))
							if r.IntN(3) == 0 {
								if err := tx.Delete(tables[i], key); err != nil {
									return err
								}
								delete(next[i], key)
								continue
							}
							value := strings.Repeat(fmt.Sprint(step), 1+r.IntN(10))
							if r.IntN(100) == 0 {
								value = strings.Repeat("large", small) // a frame of it fits in no segment
							}
							tx.Put(tables[i], key, []byte(value))
							next[i][key] = value
							if r.IntN(20) == 0 {
								next.is(t, tx, r)
								tx.Rest()
							}
						}
						next.is(t, tx, r)
						return undo
					})
					if !errors.Is(err, undo) {
						t.Fatal(err)
					}
					if undo == nil {
						m = next
					}
					read := func(tx *Tx) error { m.is(t, tx, r); return nil }
					must(t, d.View(read, tables[:]...))
					switch r.IntN(8) {
					case 0:
						must(t, d.Checkpoint(t.Context()))
						must(t, d.Stored(read))
					case 1:
						again := openDB(t, killed(t, d), options([...]Mode{Log, Commit}[r.IntN(2)]))
						must(t, again.View(read, *again.tables.Load()...))
						must(t, again.Close())
					case 2: // a view sees no later change
						err := d.View(func(tx *Tx) error {
							if mode != Commit { // by another goroutine, which takes its locks in order
								done := make(chan struct{})
								go func() { defer close(done); put(t, d, "100", "later") }()
								<-done
							}
							m.is(t, tx, r)
							return nil
						}, tables[:]...)
						must(t, err)
						if mode != Commit {
							m = m.clone()
							m[0]["100"] = "later"
						}
					}
				}
				must(t, d.Close())
			})
		}
	}
}

// TestRefusedKeys: a key that the file does not take must not reach the log, because no checkpoint
// could write it.
func TestRefusedKeys(t *testing.T) {
	for _, mode := range []Mode{Log, Commit} {
		d := openTemp(t, options(mode))
		for range 3 {
			put(t, d, "k", "v")
		}
		for _, key := range []string{"", strings.Repeat("k", bbolt.MaxKeySize+1)} {
			table := d.Table("main")
			err := change1(d, func(tx *Tx) error { tx.Put(table, key, []byte("v")); return nil })
			if !errors.Is(err, store.ErrMisconfigured) {
				t.Errorf("mode %d, a key of %d bytes: %v", mode, len(key), err)
			}
		}
		put(t, d, "k", "w")
		if err := d.Close(); err != nil {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
}

// TestGrowDuringSnapshot: while a snapshot is open, the file grows, and readers begin to read.
func TestGrowDuringSnapshot(t *testing.T) {
	o := options(Log)
	o.Segment = 1 << 20
	d := openTemp(t, o)
	put(t, d, "first", "v")
	begun, end := make(chan error), make(chan struct{})
	go func() { // a goroutine of its own, because a snapshot is a lock of the file
		s, err := d.Snapshot(t.Context())
		begun <- err
		<-end
		if err == nil {
			s.Close()
		}
		begun <- nil
	}()
	must(t, <-begun)
	defer func() {
		close(end)
		if err := <-begun; err != nil {
			t.Error(err)
		}
	}()
	before, err := d.Size()
	must(t, err)
	for i := range 40 {
		put(t, d, fmt.Sprint("key ", i), strings.Repeat("x", 100_000))
		must(t, d.Checkpoint(t.Context()))
		table := d.Table("main")
		err := d.View(func(tx *Tx) error { _, err := tx.Get(table, "first"); return err }, table)
		must(t, err)
	}
	if after, err := d.Size(); err != nil || after < before+2<<20 {
		t.Errorf("the size went from %d to %d, %v; want it to grow by 2 MiB", before, after, err)
	}
}

// TestFailedClose: Close cannot write the changes that only the log has. The log stays, and nothing
// may note in the file that the file has all changes: the next Open would not read them from the
// log. If a checkpoint has failed before, and the file has room again, Close writes its changes and
// those since.
func TestFailedClose(t *testing.T) {
	for _, c := range []struct{ checkpoint, room bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			o := options(Log)
			o.Segment = 1 << 20
			d := openTemp(t, o)
			for range 3 {
				put(t, d, "old", "1")
			}
			var db *bbolt.DB
			must(t, d.file.View(func(tx *bbolt.Tx) error { db = tx.DB(); return nil }))
			db.MaxSize = 1
			put(t, d, "large", strings.Repeat("x", 300_000))
			if c.checkpoint {
				if err := d.Checkpoint(t.Context()); err == nil {
					t.Fatal("the file had no room")
				}
			}
			put(t, d, "new", "2")
			if c.room {
				db.MaxSize = 0
			}
			if err := d.Close(); (err == nil) != c.room {
				t.Errorf("Close answers %v", err)
			}
			if err := d.Checkpoint(t.Context()); !errors.Is(err, store.ErrClosed) {
				t.Errorf("a checkpoint after Close: %v; want ErrClosed", err)
			}
			again := openDB(t, d.file.Path(), o)
			table := again.Table("main")
			err := again.View(func(tx *Tx) error {
				for key, want := range map[string]int{"old": 1, "large": 300_000, "new": 1} {
					if v, err := tx.Get(table, key); err != nil || len(v) != want {
						t.Errorf("%s has %d bytes, %v; want %d", key, len(v), err, want)
					}
				}
				return nil
			}, table)
			must(t, err)
		})
	}
}

// FuzzReadChanges reads bodies of frames. Whatever it takes, it writes again with the same content.
func FuzzReadChanges(f *testing.F) {
	one := &Table{name: "one"}
	f.Add(appendChanges(nil, []change{{one, "a", []byte("1")}, {one, "b", nil}, {one, "c", []byte{}}}, 7))
	f.Add(appendChanges(nil, nil, NoTime))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, body []byte) {
		tables := make(map[string]*Table)
		read := func(body []byte) (list []change, time int64, err error) {
			time, err = readChanges(body, func(table, key string, value []byte) error {
				if tables[table] == nil {
					tables[table] = &Table{name: table}
				}
				list = append(list, change{tables[table], key, value})
				return nil
			})
			return list, time, err
		}
		list, at, err := read(body)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, time, err := read(appendChanges(nil, list, at))
		if d := differ.Fields(again, list); err != nil || time != at || d != "" {
			t.Fatalf("the time is %d, %v; want %d\n%s", time, err, at, d)
		}
	})
}
