package serverload

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Defect is a fault that is built into a store, to see whether a harness catches it.
type Defect string

// The defects.
const (
	// Early answers a fill before it is applied.
	Early Defect = "an answer before the commit"
	// Mistold reports an unknown outcome as a call that was not applied.
	Mistold Defect = "unknown as not applied"
	// Resent sends a call again whose outcome is unknown.
	Resent Defect = "a resend after an unknown outcome"
)

// Spoiled is a store with a defect.
type Spoiled struct {
	store.Store
	Defect Defect
}

// Fill decides one operation.
func (s *Spoiled) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if s.Defect == Early {
		go func() { _, _ = s.Store.Fill(context.WithoutCancel(ctx), op) }()
		return store.State{Accepted: true}, nil
	}
	err = s.Defect.spoil(func() error { st, err = s.Store.Fill(ctx, op); return err })
	return st, err
}

// Apply decides transactions.
func (s *Spoiled) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = s.Defect.spoil(func() error { results, err = s.Store.Apply(ctx, txns...); return err })
	return results, err
}

// spoiledTransacting is a store with transactions and a defect.
type spoiledTransacting struct {
	Spoiled
	inner Transacting
}

// Update runs a transaction.
func (s *spoiledTransacting) Update(ctx context.Context, fn func(store.Store) error) error {
	return s.Defect.spoil(func() error { return s.inner.Update(ctx, fn) })
}

// With returns a store that joins a transaction.
func (s *spoiledTransacting) With(tx pgx.Tx) store.Store { return s.inner.With(tx) }

// SpoiledLedger is a ledger with a defect.
type SpoiledLedger struct {
	Joiner
	Defect Defect
}

// Decide runs a job.
func (l *SpoiledLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return l.Defect.spoil(func() error { return l.Joiner.Decide(ctx, job) })
}

// spoil makes a call with the defect.
func (d Defect) spoil(call func() error) error {
	err := call()
	for d == Resent && errors.Is(err, store.ErrUnknownOutcome) {
		err = call()
	}
	if d == Mistold && errors.Is(err, store.ErrUnknownOutcome) {
		return store.ErrUnavailable
	}
	return err
}
