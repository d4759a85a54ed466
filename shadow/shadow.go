package shadow

import (
	"context"
	"errors"
	"fmt"

	"github.com/brimgo/brim/store"
)

const backend = "shadow"

// Store is a [store.Store] that lets the wrapped store decide and refuses nothing. It is safe for
// concurrent use.
type Store struct{ inner store.Store }

// New returns a Store that wraps s. If s is nil, New fails with [store.ErrClosed].
func New(s store.Store) (*Store, error) {
	if s == nil {
		err := fmt.Errorf("%w: the store to wrap is nil", store.ErrClosed)
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	return &Store{inner: s}, nil
}

var (
	errHold = fmt.Errorf("%w: a hold that does not fit reserves nothing, so it cannot pass; "+
		"hold, capture and release by a Limiter over the wrapped store", errors.ErrUnsupported)
	errTurn = fmt.Errorf("%w: an amount that does not fit has no turn, so a Shaper cannot let it pass; "+
		"use a Shaper over the wrapped store", errors.ErrUnsupported)
)

// shadowable returns the reason why op cannot be shadowed, or nil.
func shadowable(op *store.Op) error {
	switch {
	case op.Hold != 0:
		return errHold
	case op.Turn, op.Ceiling != 0:
		return errTurn
	}
	return nil
}

// Fill lets the wrapped store decide, and accepts its refusal. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := shadowable(&op); err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	st, err := s.inner.Fill(ctx, op)
	if err == nil && (op.Mode == store.IfFits || op.Mode == store.Ask) {
		st.Accepted = true
	}
	return st, err
}

// Apply lets the wrapped store decide, and accepts its refusals. If one operation cannot be
// shadowed, the store decides none. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	for _, txn := range txns {
		for i := range txn {
			if err := shadowable(&txn[i]); err != nil {
				return nil, store.Wrap(backend, "apply", err)
			}
		}
	}
	results, err := s.inner.Apply(ctx, txns...)
	for i := range results {
		r := &results[i]
		if err != nil || r.Err != nil || r.Accepted {
			continue
		}
		r.Accepted = true
		for j := range r.States {
			r.States[j].Accepted = true
		}
	}
	return results, err
}

// Answered accepts a refusal under Nobody. See [store.Witness].
func (s *Store) Answered(ctx context.Context, op store.Op, st store.State) store.State {
	st = store.Answered(ctx, s.inner, op, st)
	st.Accepted = st.Accepted || op.Mode == store.IfFits && op.Hold == 0 || op.Mode == store.Ask
	return st
}

// Read asks the wrapped store. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	return s.inner.Read(ctx, buckets...)
}

// Delete removes buckets from the wrapped store. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	return s.inner.Delete(ctx, keys...)
}

// Visit asks the wrapped store. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return s.inner.Visit(ctx, prefix, f)
}

// Size asks the wrapped store. See [store.Store].
func (s *Store) Size(ctx context.Context) (int64, error) { return s.inner.Size(ctx) }

// Prune asks the wrapped store. See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) { return s.inner.Prune(ctx) }

// Close closes the wrapped store.
func (s *Store) Close() error { return s.inner.Close() }
