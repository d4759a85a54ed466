package boltledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

// BenchmarkFlat measures whether the cost of a decision grows with the number of entries in the
// window. The files are filled without syncs, and measured with syncs.
func BenchmarkFlat(b *testing.B) {
	dir := b.TempDir()
	var files []*bbolt.DB
	open := func(clock func() time.Time) ledger.Ledger {
		db, err := bbolt.Open(filepath.Join(dir, string(rune('a'+len(files)))), 0o600, &bbolt.Options{NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		files = append(files, db)
		s, err := bolt.New(db, nil)
		if err != nil {
			b.Fatal(err)
		}
		l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	spendload.Flat(b, open, func() {
		for _, db := range files {
			if err := db.Sync(); err != nil {
				b.Fatal(err)
			}
			db.NoSync = false
		}
	})
}
