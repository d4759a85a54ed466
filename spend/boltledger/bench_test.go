package boltledger_test

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

// BenchmarkAuthorize measures authorizations under three rules, over 10,000 accounts, in turn
// with one db.Update per decision in a file of its own. Both sync every commit.
func BenchmarkAuthorize(b *testing.B) {
	const accounts = 10_000
	dir := b.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "spend.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l, err := boltledger.New(s, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	plain, err := bbolt.Open(filepath.Join(dir, "plain.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	update := func(account int) error {
		return plain.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("plain"))
			if err != nil {
				return err
			}
			key := binary.BigEndian.AppendUint64(nil, uint64(account))
			return bucket.Put(key, binary.BigEndian.AppendUint64(nil, rand.Uint64()))
		})
	}
	authorize := spendload.Authorizer(b, l, 30*24*time.Hour)
	spendload.Rate(b, 2*time.Second, accounts, authorize)
	for b.Loop() {
		var ours, bare []float64
		for range 5 {
			bare = append(bare, spendload.Rate(b, time.Second, accounts, update))
			ours = append(ours, spendload.Rate(b, time.Second, accounts, authorize))
		}
		ratio, _ := load.Ratio(ours, bare)
		b.ReportMetric(ratio, "x-db.Update")
		b.ReportMetric(load.Median(ours), "authorize/s")
		b.ReportMetric(load.Median(bare), "update/s")
	}
}

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
