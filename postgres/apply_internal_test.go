package postgres

import (
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestRefusedAmongAccepted decides a refused transaction together with one that goes in and has a
// key in common with it.
func TestRefusedAmongAccepted(t *testing.T) {
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
			pool, schema := pgtest.Pool(t), pgtest.Schema(t)
			if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
				t.Fatal(err)
			}
			s, err := New(pool, &Options{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
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
			results, err := s.decideIn(t.Context(), tx, c.calls, nil)
			if err != nil {
				t.Fatal(err)
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
