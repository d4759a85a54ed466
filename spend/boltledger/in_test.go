package boltledger_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestIn: a fill and a decision of the ledger in one Update become durable together, with a journal
// and without one, or neither does.
func TestIn(t *testing.T) {
	limit := store.Limit{Capacity: 100}
	undo := errors.New("undo")
	for name, o := range map[string]*bolt.Options{"journal": nil, "no journal": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			path := filepath.Join(t.TempDir(), "limits.db")
			s, l, err := openBoth(path, o)
			must(t, err)
			var ended ledger.Ledger
			both := func(id string, result error) error {
				return s.Update(ctx, func(in store.Store) error {
					ended = l.In(in)
					if _, err := in.Fill(ctx, store.Op{Bucket: limit.For("k"), Amount: 1}); err != nil {
						return err
					}
					if err := ended.Decide(ctx, charge("card", id)); err != nil {
						return err
					}
					var a ledger.Account
					if err := ended.View(ctx, ask("card", &a)); err != nil || len(a.State) == 0 {
						t.Errorf("the transaction sees %q, %v", a.State, err)
					}
					return result
				})
			}
			are := func(want int) {
				t.Helper()
				states, err := s.Read(ctx, limit.For("k"))
				var a ledger.Account
				must(t, errors.Join(err, l.View(ctx, ask("card", &a))))
				if states[0].Level != float64(want) || len(a.State) != want {
					t.Errorf("%v fills and %d charges, want %d of each", states[0].Level, len(a.State), want)
				}
			}
			for i, id := range []string{"a", "b", "c"} { // the first two go straight to the file
				must(t, both(id, nil))
				if err := both("undone "+id, undo); !errors.Is(err, undo) {
					t.Errorf("an Update that fails: %v", err)
				}
				are(i + 1)
			}
			fails(t, "a ledger whose Update has ended", ended.Decide(ctx, charge("card", "late")), store.ErrClosed)
			fails(t, "a ledger in a store of With", l.In(s.With(nil)).Decide(ctx, charge("card", "late")), store.ErrMisconfigured)
			fails(t, "a ledger in the store itself", l.In(s).Decide(ctx, charge("card", "late")), store.ErrMisconfigured)
			must(t, errors.Join(l.Close(), s.Close()))
			s, l, err = openBoth(path, nil)
			must(t, err)
			are(3)
			must(t, errors.Join(l.Close(), s.Close()))
		})
	}
}
