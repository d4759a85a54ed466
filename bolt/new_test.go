package bolt

import (
	"bytes"
	"cmp"
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
// created them. New then takes these.
func TestNewMeetsAnother(t *testing.T) {
	log := &beginLog{Logger: &bbolt.DefaultLogger{Logger: stdlog.New(io.Discard, "", 0)}}
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{Logger: log})
	must(t, err)
	defer func() { _ = db.Close() }()
	met := false
	log.looked, log.hook = false, func() { met = true; fillup(t, newOver(t, db, nil), "k", 1) }
	levelIs(t, newOver(t, db, nil), "k", 1)
	if !met {
		t.Fatal("nothing happened meanwhile")
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
		opens  string // the text of Open if it has found the damage by a check of the whole file
		whole  bool   // an open store does not notice
	}{
		{"no change", func(*bbolt.Tx) error { return nil }, nil, "", "", true},
		{"a newer format", format(fileFormat + 1), errors.ErrUnsupported, "newer version of brim", "", true},
		{
			"a newer format, which keeps its totals elsewhere", func(tx *bbolt.Tx) error {
				return errors.Join(format(fileFormat+1)(tx), meta(tx).Delete([]byte("state")))
			},
			errors.ErrUnsupported, "newer version of brim", "", false,
		},
		{"a damaged format", func(tx *bbolt.Tx) error {
			b := bytes.Clone(meta(tx).Get(formatKey))
			b[len(b)-1] ^= 1
			return meta(tx).Put(formatKey, b)
		}, store.ErrCorrupt, "", "", true},
		{"a format that never was", format(0), store.ErrCorrupt, "never written", "", true},
		{
			"no format", func(tx *bbolt.Tx) error { return meta(tx).Delete(formatKey) },
			store.ErrCorrupt, "the format's number is missing", "use New", true,
		},
		{
			"no totals", func(tx *bbolt.Tx) error { return meta(tx).Delete([]byte("state")) },
			store.ErrCorrupt, `totals of the bucket "brim" are missing`, "", false,
		},
		{
			"no records", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("brim")) },
			store.ErrCorrupt, "one of the two buckets", "0 values were found where 1", false,
		},
		{
			"no meta bucket", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("brim.meta")) },
			store.ErrCorrupt, "one of the two buckets", "use New", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openApp(t)
			s := newOver(t, db, nil)
			fillup(t, s, "k", 1)
			must(t, db.Update(c.change))
			if !c.whole {
				for _, call := range callsOf(s) {
					if call.name != "verify" && call.name != "size" && call.name != "sync" && call.name != "read of no buckets" {
						call.refuses(t, t.Context(), store.ErrCorrupt, "missing")
					}
				}
				if err := s.Verify(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("Verify: error %v, want %v", err, c.want)
				}
			}
			opened := func(how, says string, open func(o *Options) (*Store, error)) {
				t.Helper()
				for _, o := range []*Options{{}, {NoVerify: true}} {
					s, err := open(o)
					if o.NoVerify {
						says = c.says
					}
					if c.want != nil {
						failsWith(t, err, c.want, "bolt: "+how+": ", says)
						if s != nil {
							t.Errorf("%s: %+v beside the error", how, s)
						}
						continue
					}
					must(t, err)
					levelIs(t, s, "k", 1)
					closeStore(t, s)
				}
			}
			opened("new", c.says, func(o *Options) (*Store, error) { return New(db, o) })
			path := db.Path()
			must(t, db.Close())
			before := bytesOf(t, path)
			opened("open app.db", cmp.Or(c.opens, c.says), func(o *Options) (*Store, error) { return Open(path, o) })
			if c.want != nil && !bytes.Equal(before, bytesOf(t, path)) {
				t.Error("the file was changed")
			}
			// The file is locked no longer.
			again, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Millisecond})
			must(t, err)
			must(t, again.Close())
		})
	}
}

// TestBucketsRemoved: an application that removes the store's bbolt buckets gets errors that say
// so, until it calls New, which makes new ones.
func TestBucketsRemoved(t *testing.T) {
	db := openApp(t)
	s := newOver(t, db, nil)
	fillup(t, s, "k", 1)
	refuse := func(s store.Store) {
		for _, c := range callsOf(s) {
			switch c.name {
			case "size", "sync", "read of no buckets":
			case "verify":
				c.refuses(t, t.Context(), store.ErrCorrupt, `the bucket "brim" is missing`)
			default:
				c.refuses(t, t.Context(), store.ErrCorrupt, `the buckets "brim" and "brim.meta" are missing`)
			}
		}
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		err := errors.Join(tx.DeleteBucket([]byte("brim")), tx.DeleteBucket([]byte("brim.meta")))
		refuse(s.With(tx))
		return err
	})
	must(t, err)
	refuse(s)
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
	must(t, db.Close())
	for _, o := range []*Options{nil, {NoVerify: true}} {
		s, err := Open(path, o)
		failsWith(t, err, store.ErrCorrupt, "bolt: open app.db: ", "use New")
		if s != nil {
			t.Errorf("Open returns %+v beside the error", s)
		}
	}
}
