package postgres

import (
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// TestRefusedAmongAccepted decides a refused transaction together with one that goes in and has a
// key in common with it.
func TestRefusedAmongAccepted(t *testing.T) {
	t.Parallel()
	limit := store.Limit{Capacity: 10}
	fits := store.Txn{{Bucket: limit.For("a"), Amount: 2}}
	refused := store.Txn{{Bucket: limit.For("a"), Amount: 1}, {Bucket: limit.For("full"), Amount: 1}}
	for _, c := range []struct {
		name, why string
		calls     [][]store.Txn
		refused   int // place of the refused one
		level     float64
	}{
		{
			"two callers", "the row of the full bucket is not locked, and may change before the commit",
			[][]store.Txn{{fits}, {refused}},
			1, 1,
		},
		{"one caller", "a call's transactions are decided in order", [][]store.Txn{{fits, refused}}, 1, 3},
		{"one caller, refused first", "a call's transactions are decided in order", [][]store.Txn{{refused, fits}}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, pool, _ := ownTable(t, Options{})
			for _, op := range []store.Op{{Bucket: limit.For("a"), Amount: 1}, {Bucket: limit.For("full"), Amount: 10}} {
				if _, err := s.Fill(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			outcomes, err := s.decideIn(t.Context(), tx, c.calls, nil)
			if err != nil {
				t.Fatal(err)
			}
			var results []store.Result
			for _, o := range outcomes {
				results = append(results, o.results...)
			}
			if res := results[c.refused]; res.Accepted || res.States[0].Level != c.level {
				t.Errorf("%+v; want a refusal that found the level %v: %s", res, c.level, c.why)
			}
			if res := results[1-c.refused]; !res.Accepted || res.States[0].Level != 3 {
				t.Errorf("%+v; want the units in", res)
			}
		})
	}
}

// TestBlockBesideARefusal refuses a transaction by a full bucket, while another of its operations
// blocks a bucket that has no row. The block must be stored.
func TestBlockBesideARefusal(t *testing.T) {
	s, _, _ := ownTable(t, Options{})
	limit := store.Limit{Capacity: 10}
	if _, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("full"), Amount: 10}); err != nil {
		t.Fatal(err)
	}
	results, err := s.Apply(t.Context(), store.Txn{
		{Bucket: limit.For("full"), Amount: 1}, {Bucket: limit.For("new"), Amount: 11, BlockFor: time.Hour},
	})
	if err != nil || results[0].Accepted {
		t.Fatalf("%+v, %v; want a refusal", results, err)
	}
	states, err := s.Read(t.Context(), limit.For("new"))
	if err != nil || states[0].BlockedUntil.IsZero() {
		t.Errorf("%+v, %v; want a block", states, err)
	}
}
