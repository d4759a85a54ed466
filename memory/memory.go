// Package memory keeps buckets in the process that uses them.
//
// It is the fastest backend and forgets everything when the process ends. Buckets that have leaked empty are removed as new
// ones come, so memory follows the number of buckets in use; [Options.MaxBuckets] bounds it.
package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/store"
)

const backend = "memory"

// ErrTooManyBuckets is the answer to a new key where MaxBuckets are in use. Nothing was applied; errors.Is finds
// [store.ErrUnavailable] in it too, because the limit has said nothing.
var ErrTooManyBuckets = fmt.Errorf("%w: as many buckets as MaxBuckets allows, and none of them is empty", store.ErrUnavailable)

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// MaxBuckets bounds the number of buckets: 0 does not. A bucket that is not empty is never evicted; a new key is refused
	// with [ErrTooManyBuckets] instead.
	MaxBuckets int
	// Clock replaces the system's clock, for tests and for replaying logs. It is taken as it is, backward steps included, and
	// must be safe for concurrent use. The default is wall time at New carried forward by the monotonic clock.
	Clock func() time.Time
	// MaxSkew is how far ahead of an injected clock a bucket's time may be before it is no longer believed; 0 means
	// [store.DefaultMaxSkew].
	MaxSkew time.Duration
	// Logger is told of clock skew; nil is silent.
	Logger *slog.Logger
}

// Store is a [store.Store] in memory. It may be used by any number of goroutines at once.
type Store struct {
	shards     [shardCount]shard // first, so that a shard begins where a cache line does
	clock      *clock.Clock
	maxSkew    time.Duration // for decisions
	sweepSkew  time.Duration // for making room in a hurry: 0 where the clock cannot step back
	maxBuckets int64
	log        *slog.Logger
	seed       maphash.Seed
	closed     atomic.Bool
	count      atomic.Int64 // buckets, over all shards; kept only where they are bounded
	sweepAfter atomic.Int64 // no sweep for room before this time: a flood of new keys must not become a flood of sweeps
}

// New returns an empty store. o may be nil. It fails where an option makes no sense.
func New(o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if o.MaxBuckets < 0 {
		return nil, &store.Error{Backend: backend, Op: "new", Err: fmt.Errorf("MaxBuckets is %d; it must be positive, or 0 for no bound", o.MaxBuckets)}
	}
	if o.MaxSkew < 0 {
		return nil, &store.Error{Backend: backend, Op: "new", Err: fmt.Errorf("MaxSkew is %v; it must be positive, or 0 for %v", o.MaxSkew, store.DefaultMaxSkew)}
	}
	s := &Store{
		clock: clock.New(o.Clock), maxSkew: o.MaxSkew, maxBuckets: int64(o.MaxBuckets),
		log: o.Logger, seed: maphash.MakeSeed(),
	}
	if s.maxSkew == 0 {
		s.maxSkew = store.DefaultMaxSkew
	}
	if o.Clock != nil {
		s.sweepSkew = s.maxSkew
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range s.shards {
		s.shards[i].hash = s.hash
	}
	return s, nil
}

// Fill decides one operation on one bucket. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.ready(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	sh, hash := s.shard(op.Key)
	now := s.clock.Now() // before the lock, or callers would wait for each other's reading; an old one cannot set a record back
	sh.mu.Lock()
	if r := sh.find(hash, op.Key); r != nil {
		var effect store.Effect
		st, effect, err = r.Fill(&op, now, s.maxSkew)
		sh.mu.Unlock()
		if effect&store.Skewed != 0 {
			s.skewed(1)
		}
		return st, store.Wrap(backend, "fill", err)
	}
	now = s.clock.Now() // again: the first reading could be older than what pruning has seen
	r := store.NewRecord(now)
	st, effect, err := r.Fill(&op, now, s.maxSkew)
	if effect&store.Write != 0 {
		s.tidy(sh, now)
		err = s.insert(sh, hash, op.Key, r)
	}
	sh.mu.Unlock()
	if errors.Is(err, ErrTooManyBuckets) && s.sweep(now) {
		return s.Fill(ctx, op)
	}
	if err != nil {
		return store.State{}, store.Wrap(backend, "fill", err)
	}
	return st, nil
}

// Read reports states. Each bucket is read by itself: several are not one snapshot. See [store.Store].
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
		if found := sh.find(hash, b.Key); found != nil {
			r = *found
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

// Prune removes buckets that have leaked empty. It locks a small part of the store at a time. See [store.Store].
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

// Close ends the store and forgets its buckets.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.table = table{hash: sh.hash}
		sh.mu.Unlock()
	}
	return nil
}

// ready is what every call asks first.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

func (s *Store) skewed(buckets int) {
	s.log.Warn("memory: stored time was further ahead of the clock than MaxSkew; set to the clock", "buckets", buckets)
}

// shardCount is a power of two, far above the number of cores, so that callers rarely meet.
const shardCount = 256

// shard is a part of the buckets under a lock of its own. It is two cache lines long, and shares neither; what a decision
// reads is in the first.
type shard struct {
	mu sync.Mutex
	table
	pruneAt int // number of buckets at which the next insertion looks for empty ones
}
