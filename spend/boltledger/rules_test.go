package boltledger_test

import (
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestDamagedRules: the damaged rules of a budget are an error, and not older ones. Nobody sets
// others behind them. Decisions by the rules of other budgets go on.
func TestDamagedRules(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "rules.db")
	var s *bolt.Store
	var l *boltledger.Ledger
	open := func() {
		t.Helper()
		var err error
		s, err = bolt.Open(path, &bolt.Options{PruneEvery: -1})
		must(t, err)
		l, err = boltledger.New(s, nil)
		must(t, err)
	}
	open()
	newest := func(budget string) (r ledger.Rules, err error) {
		err = l.View(ctx, &ledger.Job{Rules: []ledger.Known{{Budget: budget}}, Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
			r, err = snap.Rules(budget)
			return nil, err
		}})
		return r, err
	}
	for _, budget := range []string{"a", "cards", "cards", "team"} {
		must(t, l.Decide(ctx, spendload.Revised(budget, "rules of "+budget)))
	}
	must(t, errors.Join(s.Verify(ctx), l.Close(), s.Close()))
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("spend.rules"))
		key := []byte("cards\x00\x80\x00\x00\x00\x00\x00\x00\x02")
		value := append([]byte(nil), b.Get(key)...)
		value[5] ^= 1
		return b.Put(key, value)
	}))
	must(t, db.Close())
	open()
	defer func() { must(t, errors.Join(l.Close(), s.Close())) }()
	if err := s.Verify(ctx); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Verify: %v; want ErrCorrupt", err)
	}
	if r, err := newest("cards"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("damaged rules are read as %+v, %v", r, err)
	}
	if list, err := l.Revisions(ctx, "cards", 0, 5); !errors.Is(err, store.ErrCorrupt) || list != nil {
		t.Errorf("revisions, of which the newest is damaged: %+v, %v", list, err)
	}
	if list, err := l.Revisions(ctx, "cards", 2, 5); err != nil || len(list) != 1 || list[0].Seq != 1 {
		t.Errorf("revisions below the damaged one: %+v, %v", list, err)
	}
	blind := &ledger.Job{Rules: []ledger.Known{{Budget: "cards"}}, Run: func(ledger.Snapshot) (*ledger.Changes, error) {
		return &ledger.Changes{Rules: []ledger.Rules{{Budget: "cards", Seq: 3, Digest: []byte("d"), Text: []byte("t")}}}, nil
	}}
	for name, job := range map[string]*ledger.Job{"after a look": spendload.Revised("cards", "other"), "without a look": blind} {
		if err := l.Decide(ctx, job); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("rules behind damaged ones, %s: %v; want ErrCorrupt", name, err)
		}
	}
	for _, budget := range []string{"a", "team"} {
		must(t, l.Decide(ctx, spendload.Revised(budget, "more")))
		if r, err := newest(budget); err != nil || r.Seq != 2 || string(r.Text) != "more" {
			t.Errorf("the rules of another budget are %+v, %v", r, err)
		}
	}
}
