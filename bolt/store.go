package bolt

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

const backend = "bolt"

// Store keeps buckets in a bbolt database. It implements [store.Store]. Any number of goroutines
// may use it at once.
//
// After an error other than [store.ErrUnknownOutcome] nothing was applied. If a context ends
// while its call is queued, the call is taken back. If a context ends while the call's
// flush is under way, the call answers [store.ErrUnknownOutcome].
type Store struct {
	shared   // for ledgers
	options  Options
	db       *kv.DB
	table    *kv.Table
	clock    *clock.Clock
	combiner *combine.Combiner[records.Request, records.Answer]
	pruner   *pruner.Pruner // calls Prune
	closed   atomic.Bool
	once     sync.Once // of Close
	closeErr error
	refusals *records.Refusals
}

type shared = kv.Shared

var _ store.Store = (*Store)(nil)

// Fill decides one operation. A lone caller waits for one flush to the disk, see
// [Options.SyncEvery]; concurrent callers share it. An Ask writes nothing, and waits for no flush.
// Nor does a refusal write, but for the first one under another leak rate one that begins a
// penalty, and one that finds the time of its bucket ahead; see [store.Record.Fill].
// It waits for no flush if the last answer for its bucket was a refusal.
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := s.check(ctx); err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	call := s.refusals.Of(&op)
	if call.Ask {
		if st, ok, err := s.ask(&op); ok || err != nil {
			return st, store.Wrap(backend, "fill", err)
		}
	}
	answer, err := s.combiner.Do(ctx, call.Hash, records.Request{Kind: records.Fill, Op: op})
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	call.Answered(&answer.State)
	return answer.State, nil
}

// Apply decides transactions, all of them in one flush to the disk.
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if ctx.Done() != nil {
		// A caller whose context ends may change its arguments while the commit is under way.
		txns = slices.Clone(txns)
		for i := range txns {
			txns[i] = slices.Clone(txns[i])
		}
	}
	answer, err := s.combiner.Do(ctx, 0, records.Request{Kind: records.Apply, Txns: txns})
	return answer.Results, store.Wrap(backend, "apply", err)
}

// Delete removes buckets, all of them in one flush to the disk. It removes a damaged bucket, too.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if ctx.Done() != nil {
		keys = slices.Clone(keys)
	}
	_, err := s.combiner.Do(ctx, 0, records.Request{Kind: records.Remove, Keys: keys})
	return store.Wrap(backend, "delete", err)
}

// Sync makes all decisions durable that were acknowledged before the call. They are durable already
// unless [Options.SyncEvery] is set.
func (s *Store) Sync(ctx context.Context) error {
	err := s.check(ctx)
	if err == nil {
		err = s.db.Sync(ctx)
	}
	return store.Wrap(backend, "sync", err)
}

// Close ends pruning, and ends the store when the calls in flight have ended. A store that was
// opened by [Open] closes its file, and another process may open it then. The database given to
// [New] stays open.
func (s *Store) Close() error {
	s.pruner.Stop()
	s.closed.Store(true)
	s.once.Do(func() {
		s.combiner.Close()
		s.closeErr = store.Wrap(backend, "close", s.db.Close())
	})
	return s.closeErr
}

// check returns the error of a call that needs no database: the store is closed or refuses all
// work, or ctx has ended.
func (s *Store) check(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.File().Usable()
}
