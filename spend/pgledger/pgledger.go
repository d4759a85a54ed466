// Package pgledger keeps spends in PostgreSQL, beside the buckets of package postgres, for any
// number of processes.
//
//	db, err := postgres.New(pool, nil)
//	l, err := pgledger.New(db, nil)
//	cards, err := spend.New(ctx, l, spend.Budget{...}, nil)
//
// The tables come from package migrations, or from "brim migrate up". Decisions that are made
// at the same time share a transaction of two round trips. The transaction locks the rows of its
// accounts in byte order of key, reads the server's clock when all are locked, and stores accounts,
// entries and answers in one commit. If that clock is an hour or more away from the clock of the
// process, one of them is wrong, and decisions and questions fail with [store.ErrMisconfigured].
//
// The comment of package postgres describes durability, isolation and poolers. The tables of the
// ledger, but for that of the accounts, may be partitioned by hash, and the entries by time: see
// docs/ledger-upkeep.md. Citus may distribute none of them: [Check] finds that.
package pgledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultLanes     = 2
	DefaultBatchSize = 256
)

// minBatch is how many decisions must wait before a second transaction begins beside one that is in
// flight. The server works on the one while the client reads the other. A transaction costs the
// server as much as ten decisions in it, so smaller ones take longer than one.
const minBatch = 8

// patience lets the callers of one account come back, which prepare their next request for some 20
// us on another thread. Without it, a third of them would miss each transaction.
const patience = 256

// Options adjust a [Ledger]. A nil *Options means all defaults.
type Options struct {
	// Lanes is the largest number of transactions in flight, each on a connection of the pool;
	// 0 means [DefaultLanes].
	Lanes int
	// BatchSize is the largest number of decisions in one transaction; 0 means
	// [DefaultBatchSize].
	BatchSize int
}

// Ledger is a [ledger.Ledger] in PostgreSQL. Any number of goroutines and processes may use it
// at once.
type Ledger struct {
	calls
	run       *pgrun.Runner
	sql       map[string]string // by name
	seed      maphash.Seed
	decisions *pgrun.Combiner[*ledger.Job, error]
	process   func() time.Time // the clock of this process; see [rows.judge]
}

var _ ledger.Ledger = (*Ledger)(nil)

// New returns a ledger over the pool and beside the table of s, with its clock,
// StatementTimeout, Logger and Trace. New sends nothing, so a missing table shows in the first
// call. o may be nil.
//
// Close the ledger first, then s, then the pool. A ledger whose store is closed answers
// [store.ErrClosed].
func New(s *postgres.Store, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	var err error
	switch {
	case s == nil:
		err = errors.New("the store is nil; make one with postgres.New")
	case o.Lanes < 0 || o.BatchSize < 0:
		err = errors.New("an option is negative; use 0 for its default")
	}
	if err != nil {
		return nil, store.Wrap("pgledger", "new", fmt.Errorf("%w: %w", store.ErrMisconfigured, err))
	}
	run := pgrun.Of(s).As("pgledger")
	l := &Ledger{
		run: run, seed: maphash.MakeSeed(), sql: newStatements(run.Names), process: time.Now,
	}
	l.calls = calls{l, over(run.Look), over(run.Change), true}
	l.decisions, err = pgrun.NewTransactions(run, pgrun.Batching{
		Lanes: cmp.Or(o.Lanes, DefaultLanes), MinBatch: minBatch, MaxBatch: cmp.Or(o.BatchSize, DefaultBatchSize), Patience: patience,
	}, l.decideBatch)
	if err != nil {
		return nil, store.Wrap("pgledger", "new", err)
	}
	return l, nil
}

// over returns the via of a method of the runner.
func over(method func(context.Context, string, func(context.Context, *pgxpool.Conn) error) error) via {
	return func(ctx context.Context, op string, f func(context.Context, pgrun.Queryer) error) error {
		return method(ctx, op, func(ctx context.Context, conn *pgxpool.Conn) error { return f(ctx, conn) })
	}
}

// Close refuses further calls and waits for decisions in flight. The store and the pool stay
// open.
func (l *Ledger) Close() error {
	l.run.Close()
	return nil
}
