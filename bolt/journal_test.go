package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// pausing is a log that stops at lines with a text: the one who logs such a line goes on when the
// reader of lines lets it.
type pausing struct {
	text  string
	lines chan string
	goOn  chan struct{}
}

func (p pausing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), p.text) {
		p.lines <- string(b)
		<-p.goOn
	}
	return len(b), nil
}

// longFills returns fills of n new buckets, half a kilobyte each.
func longFills(prefix string, n int) []store.Txn {
	txns := make([]store.Txn, n)
	for i := range txns {
		key := fmt.Sprint(prefix, i)
		txns[i] = store.Txn{op(steady, key+strings.Repeat("-", 500-len(key)), 1, store.Always)}
	}
	return txns
}

// TestFileThatCannotGrow: while the file has no room, a store goes on with its journal, and each
// flush makes it try the file again. When the journal is full, calls are refused and say so. When
// the file has room again, the store has all that it acknowledged, and no more.
func TestFileThatCannotGrow(t *testing.T) {
	failed := pausing{"could not be written to the file", make(chan string, 100), make(chan struct{})}
	s := openTemp(t, &Options{journalRegion: 512 << 10, Logger: slog.New(slog.NewTextHandler(failed, nil))})
	apply := func(txns []store.Txn) error { _, err := s.Apply(t.Context(), txns...); return err }
	fillup(t, s, "k", 1)
	fillup(t, s, "k", 1)
	database(s).MaxSize = 1
	if err := apply(longFills("first", 900)); err != nil { // most of a region
		t.Fatal(err)
	}
	// tried waits until the file was tried, and calls then, which lets the store go on.
	tried := func(after string, then func()) {
		t.Helper()
		select {
		case <-failed.lines:
		case <-time.After(20 * time.Second):
			t.Fatalf("after the %s change the file was not tried", after)
		}
		then()
	}
	fill := func(prefix string, n int) {
		t.Helper()
		if err := apply(longFills(prefix, n)); err != nil {
			t.Fatal(err)
		}
	}
	fill("second", 150) // begins the other region
	tried("second", func() {
		fill("third", 1)
		failed.goOn <- struct{}{}
	})
	tried("third", func() { close(failed.goOn) })
	failsWith(t, apply(longFills("refused", 900)), store.ErrUnavailable, "the journal is full, and the file could not be written")
	database(s).MaxSize = 0
	fillup(t, s, "k", 1)
	closeStore(t, s)
	again := openAt(t, s.file.Path(), nil)
	levelIs(t, again, "k", 3)
	if entries, err := paging.All(t.Context(), again, ""); err != nil || len(entries) != 1+900+150+1 {
		t.Errorf("%d buckets, %v; want 1052", len(entries), err)
	}
}

// TestJournalThatCannotBegin: the commit that refers to a new journal fails. The journal is
// removed, and a later change begins another.
func TestJournalThatCannotBegin(t *testing.T) {
	var log bytes.Buffer
	s := openTemp(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	dir := filepath.Dir(s.file.Path())
	fillup(t, s, "k", 1)
	database(s).MaxSize = 1
	_, err := s.Apply(t.Context(), longFills("refused", 900)...)
	failsWith(t, err, store.ErrUnavailable)
	leftOver(t, dir, "limits.db")
	if text := log.String(); strings.Contains(text, "could not be removed") {
		t.Errorf("logged %s; the journal was removed", text)
	}
	database(s).MaxSize = 0
	fillup(t, s, "k", 1)
	leftOver(t, dir, "limits.db", "limits.db.journal")
	levelIs(t, openAt(t, copyTo(t, s, t.TempDir()), nil), "k", 2)
}

// unwritable are changes that cannot be written to the file.
type unwritable struct {
	changes
	err       error
	published bool
}

func (u *unwritable) write(*view) error { return u.err }
func (u *unwritable) publish(bool)      { u.published = true }

// TestChangesThatCannotBeWritten: a commit whose changes fail leaves out the changes that wait for it.
func TestChangesThatCannotBeWritten(t *testing.T) {
	s := openTemp(t, nil)
	for range 3 {
		fillup(t, s, "k", 1)
	}
	before := bytesOf(t, s.file.Path())
	goOn := holdUp(t, s)
	u := &unwritable{err: errors.New("bad")}
	err := s.logged.straight(u, nil)
	goOn()
	if err != u.err || u.published {
		t.Errorf("error %v, published %v; want %v, false", err, u.published, u.err)
	}
	if !bytes.Equal(bytesOf(t, s.file.Path()), before) {
		t.Error("the file was written to")
	}
	levelIs(t, openAt(t, copyTo(t, s, t.TempDir()), nil), "k", 3)
}

// TestNothingToJournal: a flush that changes nothing begins no journal, and adds nothing to one.
func TestNothingToJournal(t *testing.T) {
	small := store.Limit{Capacity: 1}
	for _, c := range []struct {
		name string
		call func(t *testing.T, s *Store) error
	}{
		{"a delete of no bucket", func(t *testing.T, s *Store) error { return s.Delete(t.Context(), "absent") }},
		{"a refusal", func(t *testing.T, s *Store) error {
			_, err := s.Apply(t.Context(), store.Txn{op(small, "k", 2, store.IfFits)})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTemp(t, nil)
			end := func() journal.Position {
				defer holdUp(t, s)()
				if s.logged.log == nil {
					return journal.Position{}
				}
				return s.logged.log.End()
			}
			for fills := range 4 {
				if fills > 0 {
					fillup(t, s, "k", 1)
				}
				before := end()
				for range 3 {
					if err := c.call(t, s); err != nil {
						t.Fatal(err)
					}
				}
				if after := end(); after != before {
					t.Errorf("after %d fills the journal went from %+v to %+v", fills, before, after)
				}
			}
		})
	}
}

// TestJournalOfTables: a journal that has changes of tables has large regions, and an Update of
// buckets writes the changes of every table that wait for the file.
func TestJournalOfTables(t *testing.T) {
	tables := []*boltfile.Table{boltfile.NewTable("one"), boltfile.NewTable("two")}
	key := []byte("key")
	for _, c := range []struct{ asked, want int64 }{
		{0, 32 << 20},
		{64 << 10, 64 << 10},
	} {
		t.Run(fmt.Sprintf("region %d", c.asked), func(t *testing.T) {
			s := openTemp(t, &Options{journalRegion: c.asked})
			ctx := t.Context()
			if err := s.file.Lock(ctx); err != nil {
				t.Fatal(err)
			}
			err := s.file.Update(func(tx *bbolt.Tx) (bool, error) {
				_, err := tables[0].Create(tx)
				if err == nil {
					_, err = tables[1].Create(tx)
				}
				return true, err
			})
			s.file.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			w := memtable.PartsOf(s).Tables
			put := func(text string) {
				t.Helper()
				if err := w.Lock(ctx); err != nil {
					t.Fatal(err)
				}
				defer w.Unlock()
				err := w.Update(func(v *memtable.View) error {
					for _, table := range tables {
						value := append([]byte(text), make([]byte, boltfile.SealSize)...)
						table.Seal(key, value)
						v.Table(table).Put(key, 1, value)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			stored := func(want string) {
				t.Helper()
				err := s.file.View(func(tx *bbolt.Tx) error {
					for _, table := range tables {
						if value := tx.Bucket(table.Name()).Get(key); !bytes.HasPrefix(value, []byte(want)) {
							t.Errorf("table %s has %q in the file, want %q", table.Name(), value, want)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			put("straight")
			stored("straight")
			put("begins ")
			put("waiting")
			stored("begins ")
			info, err := os.Stat(s.logged.path)
			if err != nil {
				t.Fatal(err)
			}
			if want := 4096 + 2*c.want; info.Size() != want {
				t.Errorf("the journal has %d bytes, want %d", info.Size(), want)
			}
			if err := s.Update(ctx, func(j store.Store) error { fillup(t, j, "k", 1); return nil }); err != nil {
				t.Fatal(err)
			}
			stored("waiting")
		})
	}
}

// TestForgottenBucketsAreNotCounted: else each flush would wake the goroutine that writes to the
// file.
func TestForgottenBucketsAreNotCounted(t *testing.T) {
	s := openTemp(t, nil)
	fillMany(t, s, 0, 50)
	if n := s.logged.mem.count.Load(); n != 50 {
		t.Errorf("%d buckets in memory, want 50", n)
	}
	forget(t, s)
	if n := s.logged.mem.count.Load(); n != 0 {
		t.Errorf("%d buckets in memory after all were forgotten", n)
	}
	levelIs(t, s, "key 000007", 7)
	if n := s.logged.mem.count.Load(); n != 1 {
		t.Errorf("%d buckets in memory after one was read", n)
	}
}
