package history

import (
	"context"
	"errors"

	"github.com/brimgo/brim/store"
)

// Defect is a fault that is built into a store, to see whether a harness catches it.
type Defect string

// The defects.
const (
	// Early writes a journal only when it is synced, so a store with SyncEvery answers before the
	// write.
	Early Defect = "early"
	// Mistold reports an unknown outcome as a call that was not applied.
	Mistold Defect = "mistold"
	// Swallowed reports a Delete that failed as done.
	Swallowed Defect = "swallowed"
	// Ahead has the watermark in the file tell that the file has all that its journal has, after
	// each call that changes buckets.
	Ahead Defect = "ahead"
	// Misfiled writes another capacity with a bucket than that of the call, and does not show it.
	Misfiled Defect = "misfiled"
	// Unsynced has Sync do nothing.
	Unsynced Defect = "unsynced"
)

// Wrap returns s with the defect.
func (d Defect) Wrap(s Backend) Backend {
	if d == "" || d == Early {
		return s
	}
	return defective{s, d}
}

// defective is a store with a defect. It has no Sync.
type defective struct {
	Backend
	defect Defect
}

// spoil returns the error that the defective store answers in the place of err.
func (d defective) spoil(err error) error {
	if d.defect == Mistold && errors.Is(err, store.ErrUnknownOutcome) {
		return store.ErrUnavailable
	}
	return err
}

func (d defective) Fill(ctx context.Context, op store.Op) (store.State, error) {
	capacity := op.Capacity
	if d.defect == Misfiled && op.Mode == store.Always {
		op.Capacity++
	}
	st, err := d.Backend.Fill(ctx, op)
	st.Capacity = capacity
	return st, d.spoil(d.advance(ctx, err))
}

func (d defective) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	results, err := d.Backend.Apply(ctx, txns...)
	return results, d.spoil(d.advance(ctx, err))
}

func (d defective) Delete(ctx context.Context, keys ...string) error {
	err := d.Backend.Delete(ctx, keys...)
	if d.defect == Swallowed {
		return nil
	}
	return d.spoil(d.advance(ctx, err))
}
