package lease

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

const backend = "lease"

const (
	// DefaultShare is the part of a bucket that slices may fill where Options do not say otherwise.
	DefaultShare = 0.25
	// DefaultAhead is the demand that a slice is for where Options do not say otherwise.
	DefaultAhead = 20 * time.Millisecond
	// DefaultMaxBuckets is how many buckets may have slices where Options do not say otherwise.
	DefaultMaxBuckets = 1 << 14
)

// Options adjust a [Store]. The zero value is the default. All processes that share buckets should use the same Share.
type Options struct {
	// Share is the part of a bucket's capacity, over 0 and under 1, up to which slices may fill it: 0 means [DefaultShare].
	// It is what leases may cost: see the package comment.
	Share float64
	// Ahead is for how long a slice should last at the rate at which it is used: 0 means [DefaultAhead]. It should be some
	// times what a call to the store takes.
	Ahead time.Duration
	// MaxBuckets is about how many buckets may have slices: 0 means [DefaultMaxBuckets]. One that is pushed out loses its
	// slice; nothing else comes of it.
	MaxBuckets int
	// Clock replaces the system's clocks, for tests. It must be safe for concurrent use.
	Clock func() time.Time
}

// Store is a [store.Store] that serves busy buckets from slices. It may be used by any number of goroutines at once. It runs
// a goroutine only while it is taking a slice; Close waits for it.
type Store struct {
	inner store.Store
	share float64
	ahead float64 // seconds
	start time.Time
	read  func() instant
	table table

	ctx    context.Context // of the slices that are being taken
	cancel context.CancelFunc
	life   sync.Mutex // orders Close and the start of goroutines
	tasks  sync.WaitGroup
	closed atomic.Bool
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
	case !(o.Share >= 0 && o.Share < 1):
		err = fmt.Errorf("Share is %v; it must be over 0 and under 1, or 0 for %v", o.Share, DefaultShare)
	case o.Ahead < 0:
		err = fmt.Errorf("Ahead is %v; it must be positive, or 0 for %v", o.Ahead, DefaultAhead)
	case o.MaxBuckets < 0:
		err = fmt.Errorf("MaxBuckets is %d; it must be positive, or 0 for %d", o.MaxBuckets, DefaultMaxBuckets)
	}
	if err != nil {
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	l := &Store{inner: s, share: o.Share, ahead: o.Ahead.Seconds(), start: time.Now()}
	if l.share == 0 {
		l.share = DefaultShare
	}
	if l.ahead == 0 {
		l.ahead = DefaultAhead.Seconds()
	}
	most := o.MaxBuckets
	if most == 0 {
		most = DefaultMaxBuckets
	}
	l.table.most = max(1, most/shards)
	l.table.seed = maphash.MakeSeed()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.read = func() instant {
		now := time.Now()
		return instant{mono: int64(now.Sub(l.start)), wall: now.UnixNano()}
	}
	if clock := o.Clock; clock != nil {
		l.read = func() instant {
			now := clock().UnixNano()
			return instant{mono: now, wall: now}
		}
	}
	return l, nil
}

// ready is what every call asks first.
func (s *Store) ready(ctx context.Context) error {
	if s == nil || s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Fill serves op from the bucket's slice if it can, and asks the store otherwise. See [store.Store].
//
// A caller whose context ends while it waits for a slice gets the context's error, and nothing was sent for it.
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.ready(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	if !leasable(&op) {
		st, err = s.inner.Fill(ctx, op)
		s.passed(&op, err != nil || !st.Accepted)
		return st, err
	}
	h := s.table.hash(op.Key)
	p := s.table.find(h, op.Key)
	if p == nil {
		ahead := int64(s.ahead * 1e9)
		if now := s.read(); s.table.busy(h, now.mono, ahead) {
			s.table.insert(h, op.Bucket, now, ahead)
		}
		return s.inner.Fill(ctx, op)
	}
	if p.limit != op.Limit {
		s.table.drop(h, p)
		return s.inner.Fill(ctx, op)
	}
	now := s.read()
	if sl := p.slice.Load(); sl != nil && sl.serve(op.Amount, now) {
		if sl.low() && sl.refilling.CompareAndSwap(false, true) {
			s.prefetch(p, op.Amount, now)
		}
		sl.state(&st, &op, now)
		return st, nil
	}
	return s.miss(ctx, p, &op)
}

// leasable reports whether op may be served from a slice. A bucket that does not leak gets none: what is lost with a slice
// would be lost for good.
func leasable(op *store.Op) bool {
	return op.Mode == store.IfFits && op.Amount > 0 && op.Hold == 0 && op.Ceiling == 0 && op.BlockFor == 0 && op.LeakRate > 0
}

// passed notes what a call that went to the store may mean for the bucket's slice.
func (s *Store) passed(op *store.Op, blocked bool) {
	h := s.table.hash(op.Key)
	p := s.table.find(h, op.Key)
	switch {
	case p == nil:
	case p.limit != op.Limit, op.BlockFor != 0 && blocked:
		s.table.drop(h, p)
	case op.Amount < 0, op.Hold < 0:
		p.roomAgain()
	}
}

// Apply asks the store. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	results, err := s.inner.Apply(ctx, txns...)
	for _, txn := range txns {
		for i := range txn {
			s.passed(&txn[i], true)
		}
	}
	return results, err
}

// Read asks the store: what is in slices is in the bucket. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	return s.inner.Read(ctx, buckets...)
}

// Delete removes buckets, and this Store's slices of them. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	err := s.inner.Delete(ctx, keys...)
	for _, key := range keys {
		h := s.table.hash(key)
		if p := s.table.find(h, key); p != nil {
			s.table.drop(h, p) // whatever became of it: the slice may be of a bucket that is gone
		}
	}
	return err
}

// Scan asks the store. See [store.Store].
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, store.Wrap(backend, "scan", err)
	}
	return s.inner.Scan(ctx, prefix, after, limit)
}

// Prune asks the store. See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) {
	if err := s.ready(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	return s.inner.Prune(ctx)
}

// Close ends what is being taken and closes the store that was given to [New]. The slices leak away in the buckets.
func (s *Store) Close() error {
	if s == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	s.life.Lock()
	again := s.closed.Swap(true)
	s.life.Unlock()
	s.cancel()
	s.tasks.Wait()
	err := s.inner.Close()
	if again && errors.Is(err, store.ErrClosed) {
		return nil // closing twice is allowed
	}
	return err
}
