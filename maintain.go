package brim

import (
	"context"
	"iter"

	"github.com/brimgo/brim/store"
)

// listPage is how many buckets List asks for at a time: nothing is held in the store between pages.
const listPage = 10_000

// List goes through the buckets whose keys start with prefix, in byte order of key, each with its state by the limit last
// written. It is for operators: what other callers do meanwhile may or may not show, and the caller may write to the store
// while it goes on. An error ends it.
func (l *Limiter) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		own := l.prefix
		if own+prefix != "" {
			if err := store.ValidateKey(own + prefix); err != nil {
				yield(Entry{}, err)
				return
			}
		}
		after := ""
		for {
			page, err := l.backend().Scan(ctx, own+prefix, after, listPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				after = e.Key
				e.Key = e.Key[len(own):]
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
		}
	}
}

// Reset removes the bucket of that key with all it holds: level, held units and block. The next call finds it empty.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	key = l.full(key)
	if err := store.ValidateKey(key); err != nil {
		return err
	}
	return l.backend().Delete(ctx, key)
}

// Prune removes buckets that have leaked empty, in the whole store, and reports how many. It changes no answer: an empty
// bucket and an absent one are the same.
func (l *Limiter) Prune(ctx context.Context) (int64, error) { return l.backend().Prune(ctx) }

// none is the store of a Limiter that has none.
type none struct{}

func (none) Fill(context.Context, store.Op) (State, error)               { return State{}, errNone() }
func (none) Apply(context.Context, ...store.Txn) ([]store.Result, error) { return nil, errNone() }
func (none) Read(context.Context, ...Bucket) ([]State, error)            { return nil, errNone() }
func (none) Delete(context.Context, ...string) error                     { return errNone() }
func (none) Scan(context.Context, string, string, int) ([]Entry, error)  { return nil, errNone() }
func (none) Prune(context.Context) (int64, error)                        { return 0, errNone() }
func (none) Close() error                                                { return nil }
