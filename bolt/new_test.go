package bolt

import (
	"errors"
	"io"
	stdlog "log"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// TestNewAtOnce makes several stores over one new database at once. All of them work on the same
// buckets.
func TestNewAtOnce(t *testing.T) {
	for range 3 {
		db := openApp(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := New(db, nil)
				if err != nil {
					t.Error(err)
					return
				}
				fillup(t, s, "k", 1)
				closeStore(t, s)
			})
		}
		wg.Wait()
		levelIs(t, newOver(t, db, nil), "k", 8)
	}
}

// beginLog is a log of bbolt, which tells of each transaction before it begins.
type beginLog struct {
	bbolt.Logger
	looked bool
	hook   func() // called before the first write after a read
}

func (l *beginLog) Debugf(_ string, v ...any) {
	if len(v) != 1 {
		return
	}
	switch hook := l.hook; {
	case v[0] == false:
		l.looked = true
	case v[0] == true && l.looked && hook != nil:
		l.hook = nil
		hook()
	}
}

// TestNewMeetsAnother: when New has found no buckets, and is about to create them, another may have
// created them. New then takes these, and refuses the same ones as before.
func TestNewMeetsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, db *bbolt.DB)
		want      error
	}{
		"a store": {func(t *testing.T, db *bbolt.DB) { fillup(t, newOver(t, db, nil), "k", 1) }, nil},
		"half of a store": {func(t *testing.T, db *bbolt.DB) {
			err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("brim")); return err })
			if err != nil {
				t.Error(err)
			}
		}, store.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			log := &beginLog{Logger: &bbolt.DefaultLogger{Logger: stdlog.New(io.Discard, "", 0)}}
			db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			met := false
			log.looked, log.hook = false, func() { met = true; c.meanwhile(t, db) }
			s, err := New(db, nil)
			if !met {
				t.Fatal("nothing happened meanwhile")
			}
			if c.want != nil {
				failsWith(t, err, c.want, "bolt: new: one of the two buckets")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			levelIs(t, s, "k", 1)
			closeStore(t, s)
		})
	}
}

// TestBrokenLayout: a store whose two bbolt buckets do not belong together, or whose format is
// not known, is refused without a check of its records, too. If that happens to an open store,
// each call says so.
func TestBrokenLayout(t *testing.T) {
	meta := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte("brim.meta")) }
	format := func(version byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			b := append([]byte{version, 0, 0, 0}, make([]byte, boltfile.SealSize)...)
			boltfile.NewTable(defaultName).SealMeta(formatKey, b)
			return meta(tx).Put(formatKey, b)
		}
	}
	for _, c := range []struct {
		name   string
		change func(tx *bbolt.Tx) error
		want   error
		says   string
		whole  bool // an open store does not notice
	}{
		{"no change", func(*bbolt.Tx) error { return nil }, nil, "", true},
		{"a newer format", format(fileFormat + 1), errors.ErrUnsupported, "newer version of brim", true},
		{
			"a newer format, which keeps its totals elsewhere", func(tx *bbolt.Tx) error {
				return errors.Join(format(fileFormat+1)(tx), meta(tx).Delete([]byte("state")))
			},
			errors.ErrUnsupported, "newer version of brim", false,
		},
		{"a format that never was", format(0), store.ErrCorrupt, "never written", true},
		{
			"no format", func(tx *bbolt.Tx) error { return meta(tx).Delete(formatKey) },
			store.ErrCorrupt, "the format's number is missing", true,
		},
		{
			"no totals", func(tx *bbolt.Tx) error { return meta(tx).Delete([]byte("state")) },
			store.ErrCorrupt, `totals of the bucket "brim" are missing`, false,
		},
		{
			"no records", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("brim")) },
			store.ErrCorrupt, "one of the two buckets", false,
		},
		{
			"no meta bucket", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("brim.meta")) },
			store.ErrCorrupt, "one of the two buckets", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openApp(t)
			s := newOver(t, db, nil)
			fillup(t, s, "k", 1)
			if err := db.Update(c.change); err != nil {
				t.Fatal(err)
			}
			if !c.whole {
				for _, call := range callsOf(s) {
					if call.name != "verify" && call.name != "size" && call.name != "read of no buckets" {
						call.refuses(t, t.Context(), store.ErrCorrupt, "missing")
					}
				}
				if err := s.Verify(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("Verify: error %v, want %v", err, c.want)
				}
			}
			for _, o := range []*Options{nil, {NoVerify: true}} {
				s, err := New(db, o)
				if c.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					levelIs(t, s, "k", 1)
					continue
				}
				failsWith(t, err, c.want, "bolt: new: ", c.says)
				if s != nil {
					t.Errorf("New returns %+v beside the error", s)
				}
			}
			path := db.Path()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, o := range []*Options{nil, {NoVerify: true}} {
				s, err := Open(path, o)
				if c.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					levelIs(t, s, "k", 1)
					closeStore(t, s)
					continue
				}
				failsWith(t, err, c.want, "bolt: open app.db: ")
				if s != nil {
					t.Errorf("Open returns %+v beside the error", s)
				}
			}
			// The file is locked no longer.
			again, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBucketsRemoved: an application that removes the store's bbolt buckets gets errors that say
// so, until it calls New, which makes new ones.
func TestBucketsRemoved(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 1)
	err := db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("brim")), tx.DeleteBucket([]byte("brim.meta")))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range callsOf(s) {
		switch c.name {
		case "size", "read of no buckets":
		case "verify":
			c.refuses(t, t.Context(), store.ErrCorrupt, `the bucket "brim" is missing`)
		default:
			c.refuses(t, t.Context(), store.ErrCorrupt, `the buckets "brim" and "brim.meta" are missing`)
		}
	}
	again := newOver(t, db, nil)
	levelIs(t, again, "k", 0)
	fillup(t, again, "k", 1)
	levelIs(t, s, "k", 1)
}

// TestOpenOfAnApplicationsDatabase: Open refuses a database without brim's buckets, and names the
// way in. New creates them.
func TestOpenOfAnApplicationsDatabase(t *testing.T) {
	db := openApp(t)
	path := db.Path()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Options{nil, {NoVerify: true}} {
		s, err := Open(path, o)
		failsWith(t, err, store.ErrCorrupt, "bolt: open app.db: ", "use New")
		if s != nil {
			t.Errorf("Open returns %+v beside the error", s)
		}
	}
}
