package refusals

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

const backend = "refusals"

const (
	// DefaultRemember limits how long a refusal is remembered if Options.Remember is 0.
	DefaultRemember = time.Second
	// DefaultMaxBuckets is the number of buckets that a Store remembers if Options.MaxBuckets is
	// 0.
	DefaultMaxBuckets = 1 << 16
)

// Options adjust a [Store]. The zero value selects the defaults.
type Options struct {
	// Remember limits how long a refusal is remembered, counted from the moment at which the
	// question was sent; 0 means [DefaultRemember]. Room that another process makes stays unused
	// until then. Remember does not limit the refusal of an amount above the bucket's capacity.
	Remember time.Duration
	// MaxBuckets is the approximate number of buckets that the Store remembers; 0 means
	// [DefaultMaxBuckets]. A bucket that is forgotten for lack of space costs one more question
	// to the store. The table allocates about 50 bytes for each of MaxBuckets in New. Each
	// remembered bucket takes another 192 bytes, and a copy of its key if the key is longer than
	// 23 bytes.
	MaxBuckets int
	// Clock replaces the monotonic clock, for tests. It must be safe for concurrent use. If it
	// runs backwards, the Store ignores answers that it learned at a later time.
	Clock func() time.Time
}

// Store is a [store.Store] that refuses some calls from memory. It is safe for concurrent use and
// starts no goroutine. A refusal from memory takes no lock and writes no memory that callers
// share.
type Store struct {
	inner    store.Store
	sets     []cacheSet
	mask     uint64
	seed     maphash.Seed
	start    time.Time
	clock    func() time.Time
	remember int64 // nanoseconds
	closed   atomic.Bool
}

// New returns a Store that wraps s; o may be nil. If s is nil, New fails with [store.ErrClosed]. It
// also fails if an option is negative.
func New(s store.Store, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	var err error
	switch {
	case s == nil:
		err = fmt.Errorf("%w: the store to wrap is nil", store.ErrClosed)
	case o.Remember < 0:
		err = fmt.Errorf("Remember is %v; it must be positive, or 0 for %v", o.Remember, DefaultRemember)
	case o.MaxBuckets < 0:
		err = fmt.Errorf("MaxBuckets is %d; it must be positive, or 0 for %d", o.MaxBuckets, DefaultMaxBuckets)
	}
	if err != nil {
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	buckets := o.MaxBuckets
	if buckets == 0 {
		buckets = DefaultMaxBuckets
	}
	n := setsFor(buckets)
	w := &Store{
		inner: s, sets: make([]cacheSet, n), mask: uint64(n - 1), seed: maphash.MakeSeed(),
		start: time.Now(), clock: o.Clock, remember: int64(o.Remember),
	}
	if w.remember == 0 {
		w.remember = int64(DefaultRemember)
	}
	return w, nil
}

// now returns the nanoseconds on the clock that ages remembered refusals.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock().UnixNano()
	}
	return int64(time.Since(s.start))
}

// check returns the error of a call that must not start because the Store is closed or ctx has
// ended.
func (s *Store) check(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// at returns the set that key belongs to, and the key's hash.
func (s *Store) at(key string) (*cacheSet, uint64) {
	h := maphash.String(s.seed, key)
	return &s.sets[h&s.mask], h
}

// Fill refuses op from memory if op is known not to fit, and asks the wrapped store otherwise.
// See [store.Store].
//
// A caller may wait for the answer to another caller's question. If its context ends meanwhile,
// the caller gets the context's error, and nothing was sent for it.
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.check(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	block := op.Mode == store.Block || op.Mode == store.Unblock
	if op.Amount == 0 && op.Hold == 0 && !block {
		return s.inner.Fill(ctx, op)
	}
	now := s.now()
	cs, h := s.at(op.Key)
	if op.Mode != store.Ask && (op.Amount < 0 || op.Hold < 0) || block || op.Limit == (store.Limit{}) {
		return s.fillAndForget(ctx, &op, cs, h)
	}
	if refusable(&op) {
		if e := cs.find(h, op.Key); e != nil && e.rec.Limit == op.Limit {
			if e.refuse(&op, now, s.remember, &st) {
				if e.provisional && op.Ceiling == 0 {
					cs.adopt(e, op.Amount+op.Hold)
				}
				return st, nil
			}
		}
	}
	if op.Mode == store.Ask { // it adds nothing, so nobody waits for its answer
		return s.inner.Fill(ctx, op)
	}
	return s.ask(ctx, &op, cs, h)
}

// fillAndForget asks the wrapped store about an op that may make room or change the wait, and
// forgets the bucket even if the call fails: its outcome may be unknown.
func (s *Store) fillAndForget(ctx context.Context, op *store.Op, cs *cacheSet, h uint64) (store.State, error) {
	defer cs.forget(h, op.Key)
	return s.inner.Fill(ctx, *op)
}

// refusable reports whether op may be refused from memory: its refusal would leave no trace in
// the store, and depends only on the bucket's level and block.
func refusable(op *store.Op) bool {
	return (op.Mode == store.IfFits || op.Mode == store.Ask) && op.BlockFor == 0 && op.CeilingAt.IsZero()
}

// Apply asks the wrapped store. It then forgets the buckets that the transactions may have
// changed. A refused transaction changes a bucket in three cases: an operation in it carries a
// penalty, its limit ends the time at an old leak rate, or the store set back a time of the bucket
// that was more than its MaxSkew ahead of the store's clock. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	defer func() {
		for i, txn := range txns {
			refused := err == nil && i < len(results) && results[i].Err == nil && !results[i].Accepted
			for j := range txn {
				op := &txn[j]
				if op.Mode == store.Ask {
					continue
				}
				cs, h := s.at(op.Key)
				if refused && op.BlockFor == 0 && cs.lastLimitIs(op.Limit) {
					e := cs.find(h, op.Key)
					if e == nil || op.Limit == e.rec.Limit &&
						(j >= len(results[i].States) || results[i].States[j].At.UnixMicro() >= e.rec.Time) {
						continue // nothing has changed, or nothing is remembered
					}
				}
				cs.forget(h, op.Key)
			}
		}
	}()
	return s.inner.Apply(ctx, txns...)
}

// Read asks the wrapped store. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	return s.inner.Read(ctx, buckets...)
}

// Delete removes buckets from the wrapped store and forgets them. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	defer func() {
		for _, key := range keys {
			cs, h := s.at(key)
			cs.forget(h, key)
		}
	}()
	return s.inner.Delete(ctx, keys...)
}

// Visit asks the wrapped store. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "visit", err)
	}
	return s.inner.Visit(ctx, prefix, f)
}

// Answered asks the wrapped store. See [store.Witness].
func (s *Store) Answered(ctx context.Context, op store.Op, st store.State) store.State {
	return store.Answered(ctx, s.inner, op, st)
}

// Size asks the wrapped store. See [store.Store].
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.check(ctx); err != nil {
		return 0, store.Wrap(backend, "size", err)
	}
	return s.inner.Size(ctx)
}

// Prune asks the wrapped store. If the wrapped store removed a bucket, or may have removed one,
// Prune forgets all buckets. Otherwise, after the store's clock is set back by more than MaxSkew,
// the store would find an empty bucket, and memory would still show the old bucket leaking. See
// [store.Store].
func (s *Store) Prune(ctx context.Context) (n int64, err error) {
	if err := s.check(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	defer func() {
		if n > 0 || err != nil {
			s.clear()
		}
	}()
	return s.inner.Prune(ctx)
}

// clear forgets all buckets.
func (s *Store) clear() {
	for i := range s.sets {
		s.sets[i].clear()
	}
}

// Close closes the wrapped store and forgets all buckets. Closing twice is allowed.
func (s *Store) Close() error {
	again := s.closed.Swap(true)
	err := s.inner.Close()
	if !again {
		s.clear()
	}
	if again && errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}
