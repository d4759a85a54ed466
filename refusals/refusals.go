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
	// DefaultRemember is for how long a refusal is believed where Options do not say otherwise.
	DefaultRemember = time.Second
	// DefaultMaxBuckets is how many buckets a Store remembers where Options do not say otherwise.
	DefaultMaxBuckets = 1 << 16
)

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Remember bounds for how long a refusal is believed, from when the question was sent: 0 means [DefaultRemember]. What
	// is more than the capacity is not bound by it.
	Remember time.Duration
	// MaxBuckets is about how many buckets are remembered: 0 means [DefaultMaxBuckets]. A bucket that is forgotten for lack
	// of room costs a question to the store, nothing else. The table takes about 50 bytes for each of them from the start, and
	// 192 bytes, and the key where it is longer than 23, for each that is remembered.
	MaxBuckets int
	// Clock replaces the monotonic clock, for tests. It must be safe for concurrent use; what was learned at a later time
	// than it shows is not believed.
	Clock func() time.Time
}

// Store is a [store.Store] that answers some calls from memory. It may be used by any number of goroutines at once, and
// starts none. A refusal from memory writes nothing that they share.
type Store struct {
	inner    store.Store
	sets     []set
	mask     uint64
	seed     maphash.Seed
	start    time.Time
	clock    func() time.Time
	remember int64 // nanoseconds
	closed   atomic.Bool
}

// New returns a Store in front of s. o may be nil. It fails where s is nil or an option makes no sense.
func New(s store.Store, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	var err error
	switch {
	case s == nil:
		err = fmt.Errorf("%w: there is none to put in front of", store.ErrClosed)
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
	f := &Store{
		inner: s, sets: make([]set, n), mask: uint64(n - 1), seed: maphash.MakeSeed(),
		start: time.Now(), clock: o.Clock, remember: int64(o.Remember),
	}
	if f.remember == 0 {
		f.remember = int64(DefaultRemember)
	}
	return f, nil
}

// now returns nanoseconds on the clock by which refusals are remembered.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock().UnixNano()
	}
	return int64(time.Since(s.start))
}

// ready is what every call asks first.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// at returns the set that may know key, and the key's hash.
func (s *Store) at(key string) (*set, uint64) {
	h := maphash.String(s.seed, key)
	return &s.sets[h&s.mask], h
}

// Fill answers from memory what is known not to fit, and asks the store otherwise. See [store.Store].
//
// A caller whose context ends while it waits for another's answer gets the context's error, and nothing was sent for it.
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.ready(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	if op.Amount == 0 && op.Hold == 0 {
		return s.inner.Fill(ctx, op)
	}
	b, h := s.at(op.Key)
	if op.Amount < 0 || op.Hold < 0 {
		// Whatever became of it: it may have made room.
		defer b.forget(h, op.Key)
		return s.inner.Fill(ctx, op)
	}
	if refusable(&op) {
		if e := b.find(h, op.Key); e != nil && e.rec.Limit == op.Limit {
			if e.refuse(&op, s.now(), s.remember, &st) {
				if e.guess && op.Ceiling == 0 {
					b.expect(e, op.Amount+op.Hold)
				}
				return st, nil
			}
		}
	}
	return s.ask(ctx, &op, b, h)
}

// refusable reports whether a refusal of op leaves no trace in the store, and depends on nothing that is not known here.
func refusable(op *store.Op) bool {
	return op.Mode == store.IfFits && op.BlockFor == 0 && op.CeilingAt.IsZero()
}

// Apply asks the store, and forgets the buckets that the transactions may have changed. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	defer func() {
		for i, txn := range txns {
			refused := err == nil && i < len(results) && results[i].Err == nil && !results[i].Accepted
			for j := range txn {
				if op := &txn[j]; !refused || op.BlockFor != 0 {
					b, h := s.at(op.Key)
					b.forget(h, op.Key)
				}
			}
		}
	}()
	return s.inner.Apply(ctx, txns...)
}

// Read asks the store. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	return s.inner.Read(ctx, buckets...)
}

// Delete removes buckets from the store and from memory. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	defer func() {
		for _, key := range keys {
			b, h := s.at(key)
			b.forget(h, key)
		}
	}()
	return s.inner.Delete(ctx, keys...)
}

// Scan asks the store. See [store.Store].
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "scan", err)
	}
	return s.inner.Scan(ctx, prefix, after, limit)
}

// Prune asks the store, and forgets everything if that removed, or may have removed, a bucket: once a bucket is gone, a store's
// clock that is set back by more than MaxSkew shows an empty bucket where memory would still find the old one leaking. See
// [store.Store].
func (s *Store) Prune(ctx context.Context) (n int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	defer func() {
		if n > 0 || err != nil {
			s.clear()
		}
	}()
	return s.inner.Prune(ctx)
}

func (s *Store) clear() {
	for i := range s.sets {
		s.sets[i].clear()
	}
}

// Close closes the store that was given to [New], and forgets everything.
func (s *Store) Close() error {
	if s == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	closed := s.closed.Swap(true)
	err := s.inner.Close()
	if !closed {
		s.clear()
	}
	if closed && errors.Is(err, store.ErrClosed) {
		return nil // closing twice is allowed
	}
	return err
}
