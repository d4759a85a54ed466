// Package intx makes each call of a store in a transaction of its own, for tests of stores within
// transactions.
package intx

import (
	"context"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Store is a store of which each call is in a transaction of its own. Close closes Store itself.
type Store struct {
	store.Store
	// In runs fn on the store within a transaction, which it commits if fn returns nil.
	In func(fn func(s store.Store) error) error
}

// Fill makes the call.
func (w Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = w.In(func(s store.Store) (err error) { st, err = s.Fill(ctx, op); return err })
	return st, err
}

// Apply makes the call.
func (w Store) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = w.In(func(s store.Store) (err error) { results, err = s.Apply(ctx, txns...); return err })
	return results, err
}

// Read makes the call.
func (w Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = w.In(func(s store.Store) (err error) { states, err = s.Read(ctx, buckets...); return err })
	return states, err
}

// Delete makes the call.
func (w Store) Delete(ctx context.Context, keys ...string) error {
	return w.In(func(s store.Store) error { return s.Delete(ctx, keys...) })
}

// Visit calls f after the transaction, so that f may call the store.
func (w Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	var entries []store.Entry
	err := w.In(func(s store.Store) (err error) { entries, err = paging.All(ctx, s, prefix); return err })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !f(e) {
			return nil
		}
	}
	return err
}

// Size makes the call.
func (w Store) Size(ctx context.Context) (n int64, err error) {
	err = w.In(func(s store.Store) (err error) { n, err = s.Size(ctx); return err })
	return n, err
}

// Prune makes the call.
func (w Store) Prune(ctx context.Context) (n int64, err error) {
	err = w.In(func(s store.Store) (err error) { n, err = s.Prune(ctx); return err })
	return n, err
}
