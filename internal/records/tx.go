package records

import (
	"context"
	"slices"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// Tx is a store within a transaction that its owner ends. A backend embeds it, and adds Size.
type Tx struct {
	// In runs fn on a view of the transaction, which has read the buckets of keys. op names the
	// call.
	In func(ctx context.Context, op string, writes bool, keys []string, fn func(v *View, now int64) error) error
	// List is the Page of the backend, whose error tells of damage.
	List func(v *View, prefix, after string, limit int, now int64) ([]store.Entry, error)
	// Scan is the largest number of buckets that a step of Prune looks at.
	Scan int
}

// Fill decides one operation.
func (t *Tx) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = t.In(ctx, "fill", op.Mode != store.Ask, []string{op.Key}, func(v *View, now int64) (err error) {
		st, err = v.Fill(&op, now)
		return err
	})
	return st, err
}

// Apply decides transactions.
func (t *Tx) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	writes := slices.ContainsFunc(txns, func(txn store.Txn) bool { return !txn.Asks() })
	err = t.In(ctx, "apply", writes, KeysOf(txns), func(v *View, now int64) error {
		results = v.Apply(txns, now)
		return nil
	})
	return results, err
}

// Read returns states, with the changes of the transaction.
func (t *Tx) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = t.In(ctx, "read", false, KeysOfBuckets(buckets), func(v *View, now int64) (err error) {
		states, err = v.States(buckets, now)
		return err
	})
	return states, err
}

// KeysOfBuckets returns the keys of buckets.
func KeysOfBuckets(buckets []store.Bucket) []string {
	keys := make([]string, len(buckets))
	for i := range buckets {
		keys[i] = buckets[i].Key
	}
	return keys
}

// Delete removes buckets.
func (t *Tx) Delete(ctx context.Context, keys ...string) error {
	return t.In(ctx, "delete", true, keys, func(v *View, _ int64) error { return v.RemoveAll(keys) })
}

// Visit visits buckets, with the changes of the transaction.
func (t *Tx) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
		err = t.In(ctx, "visit", false, nil, func(v *View, now int64) (err error) {
			entries, err = t.List(v, prefix, after, limit, now)
			return err
		})
		return entries, err
	}, f)
}

// Prune removes expired buckets.
func (t *Tx) Prune(ctx context.Context) (int64, error) {
	step := &Step{Scan: t.Scan}
	return step.Run(func() error {
		return t.In(ctx, "prune", true, nil, step.Next) // a transaction that only reads refuses it, whatever there is
	}, func(keys []string) (n int64, err error) {
		err = t.In(ctx, "prune", true, keys, func(v *View, now int64) (err error) {
			n, err = v.Prune(keys, now)
			return err
		})
		return n, err
	})
}

// Close does nothing: the owner of the transaction ends it.
func (t *Tx) Close() error { return nil }
