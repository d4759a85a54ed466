// Package memory keeps buckets in the memory of one process.
//
// It is the fastest backend, and it forgets all buckets when the process ends. When new buckets
// come, the store removes buckets that have leaked empty, so memory use follows the number of
// buckets in use. [Options.PruneEvery] removes them at an interval as well, and
// [Options.MaxBuckets] bounds the number of buckets.
//
// Use package bolt if the buckets must survive a restart, and package sqlite, postgres or
// redisstore if several processes share them.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/internal/pruner"
	"github.com/brimgo/brim/store"
)

const backend = "memory"

// Options adjust [New]. The zero value is the default.
type Options struct {
	// MaxBuckets is the largest number of buckets; 0 means no bound. A bucket that is not empty
	// is never evicted.
	//
	// If no bucket is empty, new keys share 1,024 further buckets of their limit, which the hash of
	// the key chooses. The State then has Estimate set, and no penalty applies. So a client who
	// fills the store with keys neither shuts others out nor opens the limit: nobody gets more than
	// twice the limit, once from a shared bucket and once from an own one. A hold, a block, a slot
	// or a turn with a new key fails with [store.ErrFull] instead, and so does a call under the
	// 65th limit that needs shared buckets.
	MaxBuckets int
	// Clock replaces the clock of the store, for tests and for replaying logs. Clock may step
	// back, and must be safe for concurrent use. If Clock is nil, the store follows the wall
	// clock, and time in which the machine was suspended counts. The store's time does not run
	// back: if the wall clock is set back by at most MaxSkew, the store's time runs at half speed
	// until both are equal.
	Clock func() time.Time
	// MaxSkew is the longest time that a bucket's stored time may be ahead of the clock. A stored
	// time further ahead is set to the clock. 0 means [store.DefaultMaxSkew]. Without Clock that
	// happens only after the wall clock was set back by more than MaxSkew, because the store's
	// time jumps back with it then. MaxSkew is also the time that an empty bucket stays before
	// Prune removes it.
	MaxSkew time.Duration
	// PruneEvery starts a goroutine that removes empty buckets at this interval, until Close; 0
	// starts none. When new buckets come, the store removes empty ones in any case, so PruneEvery
	// is for a program whose memory must shrink when no new buckets come. The interval counts on
	// the process's clock, also if Clock is set.
	PruneEvery time.Duration
	// Logger gets clock skew, jumps of the wall clock by more than MaxSkew, and pruning. If Logger
	// is nil, nothing is logged.
	Logger *slog.Logger
}

// Store keeps buckets in memory. It implements [store.Store]. Make one with [New]. Any number of
// goroutines may use it at once.
type Store struct {
	shards     [shardCount]shard // first, so that shards begin at cache lines
	clock      *clock.Clock
	maxSkew    time.Duration
	sweepSkew  time.Duration // for sweeps of a bounded store; 0 if the clock cannot step back by up to maxSkew
	maxBuckets int64
	log        *slog.Logger
	seed       maphash.Seed
	closed     atomic.Bool
	count      atomic.Int64 // number of buckets in all shards; counted only if MaxBuckets is set
	shared     shared
	pruner     *pruner.Pruner
	sweepAfter atomic.Int64 // microseconds; no sweep before this time, so that a flood of new keys causes few sweeps
}

// New returns an empty store. The options may be nil. A negative option counts as 0.
func New(o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	s := &Store{maxSkew: o.MaxSkew, maxBuckets: max(0, int64(o.MaxBuckets)), log: o.Logger, seed: maphash.MakeSeed()}
	if s.maxSkew <= 0 {
		s.maxSkew = store.DefaultMaxSkew
	}
	if o.Clock != nil {
		s.sweepSkew = s.maxSkew
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.clock = clock.New(clock.Options{Source: o.Clock, MaxSkew: s.maxSkew, Backend: backend, Logger: s.log})
	for i := range s.shards {
		s.shards[i].hash = s.hash
	}
	s.pruner = pruner.Start(max(0, o.PruneEvery), s.Prune, backend, s.log)
	return s
}

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.ready(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	// The clock is read before the lock, so that callers do not wait for each other's readings.
	// A reading that is older than a record does not set the record's time back.
	now := s.clock.Now()
	sh, hash := s.shard(op.Key)
	sh.mu.Lock()
	if e := sh.find(hash, op.Key); e != nil {
		var r store.Record
		sh.load(e, &r)
		if r.Time-now > s.maxSkew.Microseconds() {
			// Others may have read the clock and filled the bucket since the reading.
			now = s.clock.Now()
		}
		var effect store.Effect
		effect, err = r.FillTo(&st, &op, now, s.maxSkew)
		if effect&store.Write != 0 {
			sh.save(e, &r)
		}
		sh.mu.Unlock()
		if effect&store.Skewed != 0 {
			s.skewed(1)
		}
		return st, store.Wrap(backend, "fill", err)
	}
	if s.full() && shareable(&op) {
		sh.mu.Unlock()
		if s.sweep(now) {
			return s.Fill(ctx, op)
		}
		st, err = s.fillShared(op)
		return st, store.Wrap(backend, "fill", err)
	}
	// The first reading may be older than the reading of a Prune that removed this very bucket.
	now = s.clock.Now()
	r := store.NewRecord(now)
	st, effect, err := r.Fill(&op, now, s.maxSkew)
	if effect&store.Write != 0 {
		s.tidy(sh, now)
		err = s.insert(sh, hash, op.Key, &r)
	}
	sh.mu.Unlock()
	if errors.Is(err, errFull) && (shareable(&op) || s.sweep(now)) { // others have taken the last place meanwhile
		return s.Fill(ctx, op)
	}
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	return st, nil
}

// Read returns the states of buckets. It reads one bucket after the other, so the states may be
// of different moments. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		sh, hash := s.shard(b.Key)
		sh.mu.Lock()
		now := s.clock.Now()
		r := store.NewRecord(now)
		if e := sh.find(hash, b.Key); e != nil {
			sh.load(e, &r)
		}
		sh.mu.Unlock()
		states[i] = r.State(b.Limit, now, s.maxSkew)
	}
	return states, nil
}

// Delete removes buckets. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	for _, key := range keys {
		sh, hash := s.shard(key)
		sh.mu.Lock()
		if sh.remove(hash, key) {
			s.counted(-1)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Prune removes buckets that have leaked empty, and returns their number. It locks a small part
// of the store at a time. If ctx ends, it returns the context's error and the number so far.
// See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) {
	var removed int64
	for i := range s.shards {
		if err := s.ready(ctx); err != nil {
			return removed, store.Wrap(backend, "prune", err)
		}
		removed += s.pruneShard(&s.shards[i], s.maxSkew)
	}
	return removed, nil
}

// Close ends pruning, closes the store and forgets its buckets. Calls in flight complete.
func (s *Store) Close() error {
	s.pruner.Stop()
	if s.closed.Swap(true) {
		return nil
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.table = table{hash: sh.hash}
		sh.mu.Unlock()
	}
	s.shared.mu.Lock()
	s.shared.buckets = nil
	s.shared.mu.Unlock()
	return nil
}

// ready returns the error of a call on a closed store or with a context that is done.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// skewed logs that the times of some buckets were set to the clock, and their number.
func (s *Store) skewed(buckets int) {
	s.log.Warn("memory: stored times were more than MaxSkew ahead of the clock and were set to the clock",
		"buckets", buckets)
}
