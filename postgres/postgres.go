package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultLanes            = 3
	DefaultBatchSize        = 1024
	DefaultStatementTimeout = 10 * time.Second
	DefaultPruneEvery       = 10 * time.Minute
)

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Schema and Table name the table of buckets. The store quotes them. They must be the names
	// that the migrations were given. The defaults are "brim" and "buckets".
	Schema, Table string
	// Lanes is the largest number of combined statements in flight, each on a connection of the
	// pool; 0 means [DefaultLanes]. The store uses as many as there are callers for: one
	// statement for all callers costs less than two for half of them each. Holds, penalties and
	// calls for several buckets have one more lane of their own. Each of these two groups has
	// a further lane for calls whose rows another transaction holds.
	Lanes int
	// BatchSize is the largest number of calls in one statement; 0 means [DefaultBatchSize].
	BatchSize int
	// StatementTimeout bounds each round trip of each call, and the wait for a connection; 0 means
	// [DefaultStatementTimeout]. For a combined statement it bounds both together, and may end up
	// to an eighth earlier. A call that gets no answer ends within twice this time. A statement
	// that writes and is cut off has an unknown outcome.
	//
	// After a statement without an answer, the store closes the idle connections of the pool, by
	// [pgxpool.Pool.Reset]. Set the ConnectTimeout of the pool to a third of StatementTimeout if
	// its configuration names several servers, so that a call has time for the second one.
	//
	// It also bounds how long a call waits for a bucket whose row a transaction of somebody else
	// holds. Such a call fails with [store.ErrUnavailable], and nothing was applied. Calls for
	// other buckets do not wait: the store sets lock_timeout for each of its statements.
	//
	// If a client stops in the middle of a transaction that the store has begun, the server ends
	// the transaction after this time, by idle_in_transaction_session_timeout. These are the
	// transactions of Update and of calls for several buckets. The store leaves the settings of a
	// transaction of yours alone.
	StatementTimeout time.Duration
	// PruneEvery is the interval at which a goroutine removes empty buckets, until Close; 0 means
	// [DefaultPruneEvery], and a negative interval means never. Prune keeps a bucket for MaxSkew
	// after it is empty, so pruning more often than that finds little. The interval counts on this
	// process's clock and is up to a tenth longer, so that processes that start together do not
	// prune together. A process that finds another one at the table leaves it the rest of the
	// round.
	PruneEvery time.Duration
	// Clock replaces the server's clock, for tests and for replaying logs. It must be safe for
	// concurrent use.
	Clock func() time.Time
	// MaxSkew is how far ahead of the clock a bucket's time may be. The store does not believe
	// a time beyond that, and sets it to the clock. 0 means [store.DefaultMaxSkew].
	MaxSkew time.Duration
	// Logger gets clock skew, retries and pruning; nil is silent.
	Logger *slog.Logger
	// Trace gets each combined statement or transaction, with the number of callers that shared
	// it, its duration and its error, and each retry. Ledgers that share the store's data
	// report here too.
	Trace store.Trace
}

// Store is a [store.Store] in a PostgreSQL table. Any number of goroutines and processes may use it
// at once.
type Store struct {
	shared // for ledgers
	run    *pgrun.Runner
	sql    atomic.Pointer[statements]
	// generation numbers the texts of the statements; see resized.
	generation atomic.Int32
	maxSkew    time.Duration
	log        *slog.Logger
	seed       maphash.Seed
	fills      *pgrun.Combiner[store.Op, store.State]
	txns       *pgrun.Combiner[[]store.Txn, []store.Result]
	pruner     *pruner.Pruner
}

type shared = pgrun.Shared

// New returns a store over the caller's pool. Close does not close the pool. New sends nothing, so
// the first call reports a missing table. o may be nil. New fails if the pool is nil, or if an
// option is negative or not a name, with [store.ErrMisconfigured].
func New(pool *pgxpool.Pool, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s, err := newStore(pool, *o)
	if err != nil {
		return nil, store.Wrap("postgres", "new", fmt.Errorf("%w: %w", store.ErrMisconfigured, err))
	}
	return s, nil
}

func newStore(pool *pgxpool.Pool, o Options) (*Store, error) {
	if o.Lanes < 0 || o.BatchSize < 0 || o.StatementTimeout < 0 || o.MaxSkew < 0 {
		return nil, errors.New("an option is negative; use 0 for its default")
	}
	names, err := pgname.New(o.Schema, o.Table)
	if err != nil {
		return nil, err
	}
	if o.StatementTimeout == 0 {
		o.StatementTimeout = DefaultStatementTimeout
	}
	if o.MaxSkew == 0 {
		o.MaxSkew = store.DefaultMaxSkew
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BatchSize == 0 {
		o.BatchSize = DefaultBatchSize
	}
	if o.Lanes == 0 {
		o.Lanes = DefaultLanes
	}
	s := &Store{maxSkew: o.MaxSkew, log: o.Logger, seed: maphash.MakeSeed()}
	sql := newStatements(names, 0)
	s.sql.Store(sql)
	s.run, err = pgrun.New(pool, "postgres", pgrun.Options{
		Names: names, Timeout: o.StatementTimeout, Clock: o.Clock, Log: o.Logger, Trace: o.Trace,
		Pages: sql.pages, Resized: s.resized,
	})
	if err != nil {
		return nil, err
	}
	s.shared = s.run.Share()
	s.fills, err = pgrun.NewCombiner(s.run,
		pgrun.Batching{Lanes: o.Lanes, MinBatch: minBatch, MaxBatch: o.BatchSize},
		func(l *pgrun.Lane) pgrun.Flush[store.Op, store.State] { return newFiller(s, l).decide })
	if err != nil {
		return nil, err
	}
	s.txns, err = pgrun.NewTransactions(s.run, pgrun.Batching{MaxBatch: o.BatchSize}, s.decideBatch)
	if err != nil {
		return nil, err
	}
	if o.PruneEvery == 0 {
		o.PruneEvery = DefaultPruneEvery
	}
	s.pruner = pruner.Start(o.PruneEvery+rand.N(max(1, o.PruneEvery/10)), s.pruneAlone, "postgres", s.log)
	return s, nil
}

// resized gives the statements new texts, and so new plans, because the table has grown or shrunk.
func (s *Store) resized() { s.sql.Store(newStatements(s.run.Names, int(s.generation.Add(1)))) }

// minBatch is how many calls must wait before a second statement is sent beside one in flight.
// Apart from its keys, a statement costs as much as some dozens of keys, most of it for the
// commit.
const minBatch = 24

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.run.Ready(ctx); err != nil {
		return store.State{}, s.run.Wrap("fill", err)
	}
	switch {
	case op.Mode > store.UpTo:
		return store.State{}, s.run.Wrap("fill", errors.ErrUnsupported)
	case op.Mode == store.Unblock, op.Mode <= store.Always && op.Amount == 0 && op.Hold == 0:
		return s.fillIdle(ctx, op)
	case op.Mode != store.Ask && !combinable(&op):
		return one(s.apply(ctx, "fill", []store.Txn{{op}}))
	}
	hash := maphash.String(s.seed, op.Key)
	if op.Mode == store.Ask {
		hash++ // a question does not wait with those who wait for the row
	}
	st, err := s.fills.Do(ctx, hash, op)
	if op.Mode == store.Ask {
		err = s.run.Asked(ctx, err)
	}
	return st, s.run.Wrap("fill", err)
}

// fillIdle decides an operation that mostly has nothing to write: a fill of nothing, or the end of
// a block. Where the row as it is leaves nothing to write, fillIdle locks no row and makes none.
func (s *Store) fillIdle(ctx context.Context, op store.Op) (st store.State, err error) {
	var effect store.Effect
	var refused error // by package store, not by the server
	err = s.run.Look(ctx, "fill", func(ctx context.Context, conn *pgxpool.Conn) error {
		found, err := s.records(ctx, conn, []string{op.Key})
		if err != nil {
			return err
		}
		rec, err := found.of(op.Key)
		if err != nil {
			return err
		}
		st, effect, refused = rec.Fill(&op, found.clock, s.maxSkew)
		return nil
	})
	if err == nil && refused != nil {
		return store.State{}, s.run.Wrap("fill", refused)
	}
	if err == nil && effect != 0 {
		return one(s.apply(ctx, "fill", []store.Txn{{op}}))
	}
	return st, err
}

// Apply decides transactions in one transaction of the server, with rows locked in byte order
// of key. So transactions over rows that exist do not deadlock. Where callers make rows, a deadlock
// is rare, and the transaction is repeated. A call that only asks is one statement, which locks
// nothing. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.run.Ready(ctx); err != nil {
		return nil, s.run.Wrap("apply", err)
	}
	if len(txns) == 0 {
		return nil, nil
	}
	if onlyAsks(txns) {
		var results []store.Result
		err := s.run.Look(ctx, "apply", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			results, err = s.askIn(ctx, conn, txns)
			return err
		})
		return results, err
	}
	own := make([]store.Txn, len(txns)) // a caller who gives up may use its slices again before the flush reads them
	for i, txn := range txns {
		own[i] = slices.Clone(txn)
	}
	return s.apply(ctx, "apply", own)
}

func (s *Store) apply(ctx context.Context, op string, txns []store.Txn) ([]store.Result, error) {
	hash := uint64(0)
	if len(txns[0]) > 0 {
		hash = maphash.String(s.seed, txns[0][0].Key)
	}
	results, err := s.txns.Do(ctx, hash, txns)
	return s.wrapEach(op, results), s.run.Wrap(op, err)
}

// wrapEach names the operation in the errors of single transactions.
func (s *Store) wrapEach(op string, results []store.Result) []store.Result {
	for i := range results {
		results[i].Err = s.run.Wrap(op, results[i].Err)
	}
	return results
}

// one unpacks the answer to a transaction of one operation.
func one(results []store.Result, err error) (store.State, error) {
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return store.State{}, err
	}
	return results[0].States[0], nil
}

// Close ends pruning, refuses further calls and waits for those in flight. The pool stays open.
// Ledgers that share the store's data answer [store.ErrClosed] from then on.
func (s *Store) Close() error {
	s.pruner.Stop()
	s.run.Close()
	return nil
}

func (s *Store) skewed(buckets int) {
	s.log.Warn("postgres: stored time was further ahead of the clock than MaxSkew; set to the clock",
		"buckets", buckets, "max_skew", s.maxSkew)
}

var errNoAnswer = fmt.Errorf("%w: the server's answer had no row for the call", store.ErrUnknownOutcome)
