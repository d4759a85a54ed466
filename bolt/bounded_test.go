package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

// TestMemoryIsBounded: calls that put nothing into the journal keep no more buckets in memory than
// Options.Cached allows.
func TestMemoryIsBounded(t *testing.T) {
	const cached, keys = 256, 1200
	small := store.Limit{Capacity: 1}
	for _, c := range []struct {
		name  string
		setUp func(s *Store) error
		call  func(ctx context.Context, s *Store, key string) error
	}{
		{"reads", nil, func(ctx context.Context, s *Store, key string) error {
			_, err := s.Read(ctx, small.For(key))
			return err
		}},
		{"refusals", nil, func(ctx context.Context, s *Store, key string) error {
			_, err := s.Fill(ctx, op(small, key, 2, store.IfFits))
			return err
		}},
		{
			"fills without a journal",
			func(s *Store) error { return os.Mkdir(s.file.Path()+journalSuffix, 0o700) }, // none can be made
			func(ctx context.Context, s *Store, key string) error {
				_, err := s.Fill(ctx, op(small, key, 1, store.IfFits))
				return err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openTemp(t, &Options{Cached: cached})
				if c.setUp != nil {
					if err := c.setUp(s); err != nil {
						t.Fatal(err)
					}
				}
				for i := range keys {
					if err := c.call(t.Context(), s, fmt.Sprint(i)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // the store forgets buckets in the background
					if n := s.logged.mem.count.Load(); n > 2*cached+1 {
						t.Fatalf("%d buckets are in memory after %d calls; want %d at most", n, i+1, 2*cached+1)
					}
				}
			})
		})
	}
}

// TestCallsDuringAnUpdateEnd: calls that need the whole file wait for an Update, and no longer than
// their contexts allow.
func TestCallsDuringAnUpdateEnd(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *Store) error{
		"visit": func(ctx context.Context, s *Store) error {
			return s.Visit(ctx, "", func(store.Entry) bool { return true })
		},
		"backup": func(ctx context.Context, s *Store) error { _, err := s.Backup(ctx, io.Discard); return err },
		"verify": func(ctx context.Context, s *Store) error { return s.Verify(ctx) },
		"prune":  func(ctx context.Context, s *Store) error { _, err := s.Prune(ctx); return err },
		"update": func(ctx context.Context, s *Store) error {
			return s.Update(ctx, func(store.Store) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openTemp(t, nil)
				for range 3 {
					fillup(t, s, "k", 1)
				}
				err := s.Update(t.Context(), func(store.Store) error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					return call(ctx, s)
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v; want the end of the call's context", err)
				}
				fillup(t, s, "k", 1)
				levelIs(t, s, "k", 4)
			})
		})
	}
}
