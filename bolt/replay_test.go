package bolt

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestReplayIsLogged: Open logs how many commits the journal had, and nothing if it had none.
func TestReplayIsLogged(t *testing.T) {
	for _, c := range []struct {
		fills int
		want  string
	}{
		{2, ""}, // the first two are in the file
		{3, "commits=1\n"},
		{5, "commits=3\n"},
	} {
		t.Run(fmt.Sprint(c.fills), func(t *testing.T) {
			s := openTemp(t, nil)
			for range c.fills {
				fillup(t, s, "k", 1)
			}
			var log bytes.Buffer
			again := openAt(t, copyTo(t, s, t.TempDir()), &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			levelIs(t, again, "k", float64(c.fills))
			if got := log.String(); c.want == "" && got != "" || !strings.HasSuffix(got, c.want) {
				t.Errorf("logged %q, want %q", got, c.want)
			}
		})
	}
}

// TestStrangeRecords opens journals with changes that no version of brim has written, although
// their checksums are right. Open refuses them, Check tells of them, and they stay as they are.
func TestStrangeRecords(t *testing.T) {
	record := func(change func(r *store.Record)) []byte {
		r := store.Record{Level: 1, Limit: store.Limit{Capacity: 10}}
		change(&r)
		return boltrecord.Encode(&r)
	}
	for _, c := range []struct {
		name, table string
		value       []byte
		sound       bool
	}{
		{"a record", defaultName, record(func(*store.Record) {}), true},
		{"a short record", defaultName, record(func(*store.Record) {})[:48], false},
		{"an empty value", defaultName, []byte{}, false},
		{"another format", defaultName, append([]byte{2}, make([]byte, 48)...), false},
		{"an infinite level", defaultName, record(func(r *store.Record) { r.Level = math.Inf(1) }), false},
		{"a level that is no number", defaultName, record(func(r *store.Record) { r.Level = math.NaN() }), false},
		{"a negative hold", defaultName, record(func(r *store.Record) { r.Held = -1 }), false},
		{"a huge capacity", defaultName, record(func(r *store.Record) { r.Capacity = 1e300 }), false},
		{"a huge leak rate", defaultName, record(func(r *store.Record) { r.LeakRate = math.MaxFloat64 }), false},
		{"an unknown table", "other", record(func(*store.Record) {}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTemp(t, &Options{logSegment: 64 << 10})
			for range 3 {
				fillup(t, s, "k", 1)
			}
			must(t, s.db.Lock(t.Context()))
			err := s.db.Update(func(tx *kv.Tx) error { tx.Put(s.db.Table(c.table), "k", c.value); return nil })
			s.db.Unlock()
			must(t, err)
			path := copyTo(t, s, t.TempDir())
			journal := bytesOf(t, path+kv.LogSuffix)
			findings, err := Check(t.Context(), path)
			must(t, err)
			broken := slices.ContainsFunc(findings, func(f store.Finding) bool { return f.Severity == store.Broken && f.Subject == "journal" })
			if broken == c.sound {
				t.Errorf("Check: %+v", findings)
			}
			again, err := Open(path, nil)
			if c.sound {
				must(t, err)
				closeStore(t, again)
				return
			}
			failsWith(t, err, store.ErrCorrupt, "journal")
			if !bytes.Equal(bytesOf(t, path+kv.LogSuffix), journal) {
				t.Error("the journal was changed")
			}
		})
	}
}

// TestDamagedWatermark damages the watermark of the journal in the file. A file with such a
// watermark may need a journal, so no Open takes it for a file that needs none, whether the journal
// is there or not.
func TestDamagedWatermark(t *testing.T) {
	for _, missing := range []bool{false, true} {
		for _, noVerify := range []bool{false, true} {
			for _, at := range []int{0, 1, 17, 25, 33, markSize - 1} { // a byte of each part
				t.Run(fmt.Sprintf("missing %v, unverified %v, byte %d", missing, noVerify, at), func(t *testing.T) {
					path := journaled(t, &Options{logSegment: tiny})
					editMeta(t, path, func(meta *bbolt.Bucket) error {
						watermark := bytes.Clone(meta.Get(watermarkKey))
						watermark[at] ^= 1
						return meta.Put(watermarkKey, watermark)
					})
					if missing {
						must(t, os.Remove(path+kv.LogSuffix))
					}
					_, err := Open(path, &Options{NoVerify: noVerify})
					failsWith(t, err, store.ErrCorrupt)
				})
			}
		}
	}
}
