package bolt

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// call is a method of a store. It returns the results but the error, which must be zero after an
// error.
type call struct {
	name string // the operation in the text of an error, then a note
	do   func(ctx context.Context) (results []any, err error)
}

// callsOf lists the calls that s has, each with arguments that are as small as may be, and once
// more without any.
func callsOf(s store.Store) []call {
	calls := []call{
		{"fill", func(ctx context.Context) ([]any, error) {
			st, err := s.Fill(ctx, op(steady, "k", 1, store.IfFits))
			return []any{st}, err
		}},
		{"fill of nothing", func(ctx context.Context) ([]any, error) {
			st, err := s.Fill(ctx, op(steady, "k", 0, store.IfFits))
			return []any{st}, err
		}},
		{"apply", func(ctx context.Context) ([]any, error) {
			results, err := s.Apply(ctx, store.Txn{op(steady, "k", 1, store.IfFits)})
			return []any{results}, err
		}},
		{"apply of no transactions", func(ctx context.Context) ([]any, error) {
			results, err := s.Apply(ctx)
			return []any{results}, err
		}},
		{"read", func(ctx context.Context) ([]any, error) {
			states, err := s.Read(ctx, steady.For("k"))
			return []any{states}, err
		}},
		{"read of no buckets", func(ctx context.Context) ([]any, error) {
			states, err := s.Read(ctx)
			return []any{states}, err
		}},
		{"delete", func(ctx context.Context) ([]any, error) { return nil, s.Delete(ctx, "k") }},
		{"delete of no buckets", func(ctx context.Context) ([]any, error) { return nil, s.Delete(ctx) }},
		{"size", func(ctx context.Context) ([]any, error) {
			n, err := s.Size(ctx)
			return []any{n}, err
		}},
		{"visit", func(ctx context.Context) ([]any, error) {
			entries, err := paging.All(ctx, s, "")
			return []any{entries}, err
		}},
		{"prune", func(ctx context.Context) ([]any, error) {
			n, err := s.Prune(ctx)
			return []any{n}, err
		}},
	}
	if s, ok := s.(interface {
		Verify(ctx context.Context) error
		Compact(ctx context.Context) (before, after int64, err error)
		Backup(ctx context.Context, w io.Writer) (int64, error)
	}); ok {
		calls = append(
			calls,
			call{"verify", func(ctx context.Context) ([]any, error) { return nil, s.Verify(ctx) }},
			call{"compact", func(ctx context.Context) ([]any, error) {
				before, after, err := s.Compact(ctx)
				return []any{before, after}, err
			}},
			call{"backup", func(ctx context.Context) ([]any, error) {
				n, err := s.Backup(ctx, io.Discard)
				return []any{n}, err
			}},
		)
	}
	if s, ok := s.(*Store); ok {
		calls = append(calls, call{"sync", func(ctx context.Context) ([]any, error) { return nil, s.Sync(ctx) }})
		calls = append(calls, call{"update", func(ctx context.Context) ([]any, error) {
			called := false
			err := s.Update(ctx, func(store.Store) error { called = true; return nil })
			return []any{called}, err
		}})
	}
	return calls
}

// refuses checks that a call answers an error that is want and names the operation, and nothing
// else.
func (c call) refuses(t *testing.T, ctx context.Context, want error, words ...string) {
	t.Helper()
	results, err := c.do(ctx)
	operation, _, _ := strings.Cut(c.name, " ")
	if (operation == "compact" || operation == "backup") && errors.Is(err, errors.ErrUnsupported) {
		return // over an application's database, in whatever state
	}
	failsWith(t, err, want, words...)
	if got := err.Error(); !strings.HasPrefix(got, "bolt: "+operation+": ") {
		t.Errorf("error %q does not name the operation %s", got, operation)
	}
	for _, r := range results {
		if d := differ.Fields(r, reflect.Zero(reflect.TypeOf(r)).Interface()); d != "" {
			t.Errorf("beside the error %v: %s", err, d)
		}
	}
}

// TestRefusedCalls: when the context has ended, or the store is closed, every call answers that,
// and does nothing. That holds for calls that have nothing to do, too.
func TestRefusedCalls(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"Open":      func(t *testing.T) store.Store { return openTemp(t, nil) },
		"New":       func(t *testing.T) store.Store { return newOver(t, openApp(t), nil) },
		"SyncEvery": func(t *testing.T) store.Store { return openTemp(t, &Options{SyncEvery: time.Hour}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			fillup(t, s, "k", 1)
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			for _, c := range callsOf(s) {
				t.Run("cancelled "+c.name, func(t *testing.T) {
					for range 20 { // a choice at random must not let a call through
						c.refuses(t, cancelled, context.Canceled)
					}
				})
			}
			levelIs(t, s, "k", 1)
			for range 2 {
				closeStore(t, s)
				for _, c := range callsOf(s) {
					t.Run("closed "+c.name, func(t *testing.T) { c.refuses(t, t.Context(), store.ErrClosed) })
				}
			}
		})
	}
	t.Run("Update", func(t *testing.T) {
		s := openTemp(t, nil)
		var ended store.Store
		err := s.Update(t.Context(), func(j store.Store) error {
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			for _, c := range callsOf(j) {
				t.Run("cancelled "+c.name, func(t *testing.T) { c.refuses(t, cancelled, context.Canceled) })
			}
			ended = j
			return nil
		})
		must(t, err)
		for _, c := range callsOf(ended) {
			t.Run("ended "+c.name, func(t *testing.T) { c.refuses(t, t.Context(), store.ErrClosed) })
		}
	})
}

// TestRefusesWhatChangesNothing: after a commit of unknown outcome the file may have buckets that
// memory lacks. A Delete of such a bucket must not succeed, though it changes nothing in memory.
func TestRefusesWhatChangesNothing(t *testing.T) {
	for _, o := range []*Options{nil, {NoJournal: true}} {
		s := openTemp(t, o)
		fillup(t, s, "k", 1)
		fillup(t, s, "k", 1)
		s.db.File().Refuse("a commit may or may not last")
		failsWith(t, s.Delete(t.Context(), "none"), store.ErrMisconfigured, "bolt: delete: a commit may or may not last")
		_, err := s.Fill(t.Context(), op(steady, "k", 2*steady.Capacity, store.IfFits))
		failsWith(t, err, store.ErrMisconfigured, "bolt: fill: a commit may or may not last")
		_, err = s.Apply(t.Context(), store.Txn{op(steady, "k", 2*steady.Capacity, store.IfFits)})
		failsWith(t, err, store.ErrMisconfigured, "bolt: apply: a commit may or may not last")
	}
}
