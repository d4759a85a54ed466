package bolt

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

// TestCallsDuringAnUpdate: calls that read do not wait for an Update, and see the state before it.
// A call that changes the store waits, and no longer than its context allows.
func TestCallsDuringAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		call  func(ctx context.Context, s *Store) error
		waits bool
	}{
		"visit": {call: func(ctx context.Context, s *Store) error {
			return s.Visit(ctx, "", func(e store.Entry) bool {
				if e.Level != 3 {
					t.Errorf("a visitor sees %v of an Update that has not ended", e.Level)
				}
				return true
			})
		}},
		"backup":  {call: func(ctx context.Context, s *Store) error { _, err := s.Backup(ctx, io.Discard); return err }},
		"verify":  {call: func(ctx context.Context, s *Store) error { return s.Verify(ctx) }},
		"compact": {call: func(ctx context.Context, s *Store) error { _, _, err := s.Compact(ctx); return err }},
		"update": {call: func(ctx context.Context, s *Store) error {
			return s.Update(ctx, func(store.Store) error { return nil })
		}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openTemp(t, nil)
				for range 3 {
					fillup(t, s, "k", 1)
				}
				var during error
				err := s.Update(t.Context(), func(j store.Store) error {
					fillup(t, j, "k", 1)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					during = c.call(ctx, s)
					levelIs(t, j, "k", 4)
					return nil
				})
				if err != nil || c.waits != errors.Is(during, context.DeadlineExceeded) || !c.waits && during != nil {
					t.Errorf("%v, and the Update %v; want the end of the call's context: %v", during, err, c.waits)
				}
				levelIs(t, s, "k", 4)
			})
		})
	}
}
