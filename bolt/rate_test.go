package bolt

import (
	"errors"
	"hash/crc64"
	"io/fs"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// TestRefusalsChangeTheRateOnce refuses amounts under another leak rate than the one last written.
// The first refusal ends the time at the old rate, and is as durable as a fill. Later ones at the
// same rate write nothing, and an amount that can never fit writes nothing either.
func TestRefusalsChangeTheRateOnce(t *testing.T) {
	for name, o := range map[string]Options{"journal": {logSegment: tiny}, "no journal": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			clock := newTestClock()
			o.Clock = clock.Now
			s := openTemp(t, &o)
			slow, fast := store.Limit{Capacity: 100, LeakRate: 1}, store.Limit{Capacity: 100, LeakRate: 2}
			for range 2 { // the second begins the journal
				mustFill(t, s, op(slow, "k", 45, store.Always))
			}
			clock.Advance(10 * time.Second)
			try := func(l store.Limit, n float64) (wrote bool) {
				t.Helper()
				before := newest(t, s)
				st, err := s.Fill(t.Context(), op(l, "k", n, store.IfFits))
				if err != nil || st.Accepted || st.Level != 80 {
					t.Fatalf("%+v, %v; want a refusal at a level of 80", st, err)
				}
				return newest(t, s) != before
			}
			for i, c := range []struct {
				why   string
				limit store.Limit
				n     float64
				wrote bool
			}{
				{"the rate has not changed", slow, 50, false},
				{"the amount can never fit", fast, 101, false},
				{"the rate has changed", fast, 50, true},
				{"the rate has not changed since", fast, 50, false},
				{"the rate has changed back", slow, 50, true},
				{"the rate has not changed since", slow, 50, false},
				{"to the last rate", fast, 50, true},
			} {
				if wrote := try(c.limit, c.n); wrote != c.wrote {
					t.Errorf("refusal %d wrote: %v; %s", i, wrote, c.why)
				}
			}
			again := openAt(t, copyTo(t, s, t.TempDir()), &Options{Clock: clock.Now})
			clock.Advance(10 * time.Second) // at the rate of the refusal
			levelIs(t, again, "k", 60)
			levelIs(t, s, "k", 60)
		})
	}
}

// newest returns the number of commits so far, and a checksum of the journal.
func newest(t *testing.T, s *Store) (n [2]uint64) {
	t.Helper()
	err := s.db.File().View(func(tx *bbolt.Tx) error { n[0] = uint64(tx.ID()); return nil })
	must(t, err)
	log, err := os.ReadFile(s.db.File().Path() + kv.LogSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	n[1] = crc64.Checksum(log, crc64.MakeTable(crc64.ECMA))
	return n
}
