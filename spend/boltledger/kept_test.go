package boltledger_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
	"github.com/brimgo/brim/spend/boltledger"
)

var update = flag.Bool("update", false, "write testdata/spends1.db anew")

// TestSpendsOfEarlierVersions reads the spends of the first version, and goes on with them. Users
// have such files, so their format can never change.
func TestSpendsOfEarlierVersions(t *testing.T) {
	const sample = "testdata/spends1.db"
	clock := brimtest.NewClock(time.Now())
	with := func(path string, f func(*boltledger.Ledger)) {
		s, err := bolt.Open(path, &bolt.Options{Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		l, err := boltledger.New(s, nil)
		if err == nil {
			f(l)
			err = l.Close()
		}
		if closeErr := s.Close(); err != nil || closeErr != nil {
			t.Error(err, closeErr)
		}
	}
	if *update {
		_ = os.Remove(sample)
		with(sample, func(l *boltledger.Ledger) {
			if err := kept.Spend(t.Context(), l, clock); err != nil {
				t.Error(err)
			}
		})
	}
	file, err := os.ReadFile(sample)
	path := filepath.Join(t.TempDir(), "spends.db")
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	with(path, func(l *boltledger.Ledger) { kept.Compare(t, l, clock) })
}
