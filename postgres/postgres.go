package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

const backend = "postgres"

// Defaults of [Options].
const (
	DefaultLanes            = 3
	DefaultBatchSize        = 1024
	DefaultStatementTimeout = 10 * time.Second
)

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Schema and Table say where the buckets are; they are quoted, and must be those that the migrations were given. The
	// defaults are "brim" and "buckets".
	Schema, Table string
	// Lanes is how many combined statements may be in flight at once, each on a connection of the pool; 0 means
	// [DefaultLanes]. As many are used as there are callers for: one statement for all costs less than two for half of them. Operations that the combined statement does not know (holds, ceilings, penalties, several buckets at
	// once) have a lane of their own besides.
	Lanes int
	// BatchSize is the largest number of calls in one statement; 0 means [DefaultBatchSize].
	BatchSize int
	// StatementTimeout bounds one combined statement, with the wait for a connection before it; 0 means
	// [DefaultStatementTimeout]. A statement that was cut off by it has an unknown outcome: where row locks may be waited
	// for, set lock_timeout in the connection string below it, so that the server answers first, with a clear no.
	StatementTimeout time.Duration
	// PruneEvery starts a goroutine that removes buckets that have leaked empty, at this interval, until Close; 0 starts none.
	PruneEvery time.Duration
	// Clock replaces the server's clock, for tests and for replaying logs. It must be safe for concurrent use.
	Clock func() time.Time
	// MaxSkew is how far ahead of the clock a bucket's time may be before it is no longer believed; 0 means
	// [store.DefaultMaxSkew].
	MaxSkew time.Duration
	// Logger is told of clock skew, retries and pruning; nil is silent.
	Logger *slog.Logger
	// Trace is told of each combined statement, or transaction: how many callers shared it, how long it took, and why it
	// failed; and of what is tried again.
	Trace store.Trace
}

// Store is a [store.Store] in a PostgreSQL table. It may be used by any number of goroutines and processes at once.
type Store struct {
	pool    *pgxpool.Pool
	sql     *statements
	clock   func() time.Time
	maxSkew time.Duration
	timeout time.Duration
	log     *slog.Logger
	trace   store.Trace
	seed    maphash.Seed
	fills   *combine.Combiner[store.Op, store.State]
	txns    *combine.Combiner[[]store.Txn, []store.Result]
	lanes   []*lane
	txnLane *lane

	// explicit is set by the first serialization failure: the session's default isolation is not READ COMMITTED, and
	// statements must say which they want.
	explicit atomic.Bool
	closed   atomic.Bool
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// New returns a store over the caller's pool, which stays the caller's: Close does not close it. It sends nothing; a missing
// table shows in the first call. o may be nil.
func New(pool *pgxpool.Pool, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{pool: pool, clock: o.Clock, maxSkew: o.MaxSkew, timeout: o.StatementTimeout, log: o.Logger, trace: o.Trace, seed: maphash.MakeSeed()}
	names, err := pgname.New(o.Schema, o.Table)
	switch {
	case err != nil:
	case pool == nil:
		err = errors.New("the pool is nil; make one with pgxpool.New")
	case o.Lanes < 0 || o.BatchSize < 0 || o.StatementTimeout < 0 || o.PruneEvery < 0 || o.MaxSkew < 0:
		err = errors.New("an option is negative; use 0 for its default")
	}
	if err != nil {
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	s.sql = newStatements(names)
	if s.maxSkew == 0 {
		s.maxSkew = store.DefaultMaxSkew
	}
	if s.timeout == 0 {
		s.timeout = DefaultStatementTimeout
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	batch := o.BatchSize
	if batch == 0 {
		batch = DefaultBatchSize
	}
	n := o.Lanes
	if n == 0 {
		n = DefaultLanes
	}
	for range n {
		s.lanes = append(s.lanes, s.newLane())
	}
	s.txnLane = s.newLane()
	s.fills, err = combine.New(
		func(i int, batch []*fillRequest) { s.lanes[i].fill(batch) },
		&combine.Options{
			Lanes: n, MaxBatch: batch, MinBatch: minBatch,
			Before:  func(i int) error { return s.lanes[i].acquire() },
			Cut:     func(i int) { s.lanes[i].end() },
			After:   func(i int) { s.lanes[i].release() },
			Flushed: s.flushed(),
		})
	if err == nil {
		s.txns, err = combine.New(
			func(_ int, batch []*txnRequest) { s.txnLane.apply(batch) },
			&combine.Options{
				MaxBatch: batch,
				Before:   func(int) error { return s.txnLane.acquire() },
				Cut:      func(int) { s.txnLane.end() },
				After:    func(int) { s.txnLane.release() },
				Flushed:  s.flushed(),
			})
	}
	if err != nil {
		return nil, store.Wrap(backend, "new", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if o.PruneEvery > 0 {
		s.wg.Go(func() { s.pruneLoop(ctx, o.PruneEvery) })
	}
	return s, nil
}

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.ready(ctx); err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	switch {
	case op.Mode > store.Always:
		return store.State{}, store.Wrap(backend, "fill", errors.ErrUnsupported)
	case op.Amount == 0 && op.Hold == 0:
		return s.fillNothing(ctx, op)
	case !combinable(&op):
		return one(s.apply(ctx, "fill", []store.Txn{{op}}))
	}
	st, err := s.fills.Do(ctx, maphash.String(s.seed, op.Key), op)
	return st, s.callError("fill", err)
}

// minBatch is how many calls must wait for a second statement to be sent beside one that is in flight. What a statement costs
// beside its keys, most of it the commit, is as much as some dozens of keys cost.
const minBatch = 24

// fillNothing answers a fill of nothing, which is always accepted and writes nothing.
func (s *Store) fillNothing(ctx context.Context, op store.Op) (store.State, error) {
	states, err := s.Read(ctx, op.Bucket)
	if err != nil {
		return store.State{}, err
	}
	states[0].Accepted = true
	return states[0], nil
}

// Apply decides transactions in one transaction of the server's, rows locked in byte order of key: transactions of any number
// of callers over any keys do not deadlock. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	if len(txns) == 0 {
		return nil, nil
	}
	own := make([]store.Txn, len(txns)) // a caller who gives up may use its slices again before the flush reads them
	for i, txn := range txns {
		own[i] = slices.Clone(txn)
	}
	return s.apply(ctx, "apply", own)
}

func (s *Store) apply(ctx context.Context, op string, txns []store.Txn) ([]store.Result, error) {
	results, err := s.txns.Do(ctx, 0, txns)
	if err != nil {
		return nil, s.callError(op, err)
	}
	for i := range results {
		results[i].Err = store.Wrap(backend, op, results[i].Err)
	}
	return results, nil
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

// Close refuses further calls, waits for those in flight and ends pruning. The pool stays open.
func (s *Store) Close() error {
	if s == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.fills.Close()
	s.txns.Close()
	s.wg.Wait()
	return nil
}

// ready is what every call asks first.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// now is the injected clock's time for a statement, or nil for the server's.
func (s *Store) now() *time.Time {
	if s.clock == nil {
		return nil
	}
	t := s.clock()
	return &t
}

func (s *Store) skewed(buckets int) {
	s.log.Warn("postgres: stored time was further ahead of the clock than MaxSkew; set to the clock",
		"buckets", buckets, "max_skew", s.maxSkew)
}

// callError names the operation in an error that was made for a whole batch, or by the combiner.
func (s *Store) callError(op string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*store.Error)(nil); errors.As(err, &e) {
		if e.Op == op {
			return err
		}
		return &store.Error{Backend: backend, Op: op, Err: e.Err}
	}
	return &store.Error{Backend: backend, Op: op, Err: err}
}

var errNoAnswer = fmt.Errorf("%w: the server's answer had no row for the call", store.ErrUnknownOutcome)
