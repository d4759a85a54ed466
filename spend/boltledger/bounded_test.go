package boltledger

import (
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/spendload"
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
	spendload.Bounded(t, l, func(f func(book.Reader) error) error {
		return l.read(t.Context(), "test", func(b *buckets) error { return f(b) })
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
