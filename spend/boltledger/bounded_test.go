package boltledger

import (
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

func TestBounded(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "ledger.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	spendload.Bounded(t, l, func(
		account string, after ledger.Place, upto int64, limit int,
	) (page []ledger.Entry, through ledger.Place, err error) {
		err = l.read(t.Context(), "test", func(b *buckets) error {
			page, through, err = b.Entries(account, after, upto, limit)
			return err
		})
		return page, through, err
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
