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
	// DefaultShare is the part of a bucket that allotments may fill if Options.Share is 0.
	DefaultShare = 0.25
	// DefaultAhead is the time for which an allotment should last if Options.Ahead is 0.
	DefaultAhead = 20 * time.Millisecond
	// DefaultMaxBuckets is the number of buckets that may have allotments if Options.MaxBuckets
	// is 0.
	DefaultMaxBuckets = 1 << 14
)

// Options adjust a [Store]. The zero value selects the defaults. All processes that share buckets
// should use the same Share.
type Options struct {
	// Share is the part of a bucket's capacity, above 0 and below 1, to which allotments may fill
	// the bucket; 0 means [DefaultShare]. It limits the units that leases may waste: see the
	// package comment.
	Share float64
	// Ahead is the time for which an allotment should last at the current demand; 0 means
	// [DefaultAhead]. It should be several times the duration of a call to the store.
	Ahead time.Duration
	// MaxBuckets is the approximate number of buckets that may have allotments; 0 means
	// [DefaultMaxBuckets]. A bucket that another bucket displaces loses its allotment and nothing
	// else.
	MaxBuckets int
	// Clock replaces the system's monotonic and wall clocks, for tests. It must be safe for
	// concurrent use.
	Clock func() time.Time
}

// Store is a [store.Store] that serves busy buckets from allotments. It is safe for concurrent
// use. It runs a goroutine only while it asks for an allotment; Close waits for that goroutine.
type Store struct {
	inner      store.Store
	share      float64
	ahead      float64 // seconds
	start      time.Time
	readClocks func() instant
	table      table

	ctx      context.Context // of the requests for allotments
	cancel   context.CancelFunc
	starting sync.Mutex // held to start a request, and by Close to forbid further ones
	requests sync.WaitGroup
	closed   atomic.Bool
}

// New returns a Store that wraps s; o may be nil. If s is nil, New fails with [store.ErrClosed]. It
// also fails if an option is out of range.
func New(s store.Store, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	var err error
	switch {
	case s == nil:
		err = fmt.Errorf("%w: the store to wrap is nil", store.ErrClosed)
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
	buckets := o.MaxBuckets
	if buckets == 0 {
		buckets = DefaultMaxBuckets
	}
	l.table.maxPerShard = max(1, buckets/shards)
	l.table.seed = maphash.MakeSeed()
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.readClocks = func() instant {
		now := time.Now()
		return instant{mono: int64(now.Sub(l.start)), wall: now.UnixNano()}
	}
	if clock := o.Clock; clock != nil {
		l.readClocks = func() instant {
			now := clock().UnixNano()
			return instant{mono: now, wall: now}
		}
	}
	return l, nil
}

// check returns the error of a call that must not start because the Store is closed or ctx has
// ended.
func (s *Store) check(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// Fill serves op from the bucket's allotment if it can, and asks the wrapped store otherwise. See
// [store.Store].
//
// A caller may wait for an allotment that is on its way. If its context ends meanwhile, the
// caller gets the context's error, and nothing was sent for it.
func (s *Store) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = s.check(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	if op.Mode == store.Ask {
		if s.able(&op, &st) {
			return st, nil
		}
		return s.inner.Fill(ctx, op)
	}
	if err = s.end(ctx, &op); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	if !leasable(&op) {
		st, err = s.inner.Fill(ctx, op)
		s.bypassed(&op, &st, err)
		return st, err
	}
	h := s.table.hash(op.Key)
	a := s.table.find(h, op.Key)
	if a == nil {
		ahead := int64(s.ahead * 1e9)
		if now := s.readClocks(); s.table.busy(h, now.mono, ahead) {
			s.table.insert(h, op.Bucket, now, ahead)
		}
		return s.inner.Fill(ctx, op)
	}
	if a.limit != op.Limit { // a caller with another limit has come meanwhile
		return s.inner.Fill(ctx, op)
	}
	now := s.readClocks()
	if current := a.allotment.Load(); current != nil && current.serve(op.Amount, now) {
		if current.low() && current.prefetched.CompareAndSwap(false, true) {
			s.prefetch(a, op.Amount, now)
		}
		current.state(&st, &op, now)
		return st, nil
	}
	return s.await(ctx, a, &op)
}

// leasable reports whether op may be served from an allotment. A bucket that does not leak gets
// no allotments: units of a lost allotment would stay in the bucket for ever. A Shaper gets none,
// because the units of an allotment have had their turn.
func leasable(op *store.Op) bool {
	return op.Mode == store.IfFits && op.Amount > 0 && op.Hold == 0 && op.Ceiling == 0 && op.BlockFor == 0 &&
		op.LeakRate > 0 && !op.Turn
}

// able reports whether the bucket's allotment would serve a question, and writes the answer to st.
func (s *Store) able(op *store.Op, st *store.State) bool {
	try := *op
	try.Mode = store.IfFits
	if !leasable(&try) {
		return false
	}
	a := s.table.find(s.table.hash(op.Key), op.Key)
	if a == nil || a.limit != op.Limit {
		return false
	}
	now := s.readClocks()
	current := a.allotment.Load()
	if current == nil || !current.has(op.Amount, now) {
		return false
	}
	current.state(st, op, now)
	return true
}

// end ends the bucket's account before a call with another limit, and waits for a pending request.
// That request goes out with the old limit. If it came after the call, the bucket would leak at the
// old rate again.
func (s *Store) end(ctx context.Context, op *store.Op) error {
	if op.Limit == (store.Limit{}) || op.Mode == store.Ask || op.Mode == store.Unblock { // it writes no limit
		return nil
	}
	h := s.table.hash(op.Key)
	a := s.table.find(h, op.Key)
	if a == nil || a.limit == op.Limit {
		return nil
	}
	s.table.drop(h, a)
	a.mu.Lock()
	pending := a.pending
	a.mu.Unlock()
	if pending == nil {
		return nil
	}
	select {
	case <-pending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bypassed updates the bucket's account after a call that bypassed its allotment, with its answer or
// its error. A block ends the account, and so do units that went in beyond the capacity or were lost
// over it: without leases, the bucket would be full. A drain or a release makes room for the next
// allotment.
func (s *Store) bypassed(op *store.Op, st *store.State, err error) {
	h := s.table.hash(op.Key)
	a := s.table.find(h, op.Key)
	refused := err != nil || !st.Accepted
	switch {
	case a == nil:
	case op.Mode == store.Unblock: // it may make room
		a.endPause()
	case op.BlockFor != 0 && (refused || op.Mode == store.Block),
		op.Amount > 0 && op.Mode != store.IfFits && (refused || st.Level+st.Held > st.Capacity):
		s.table.drop(h, a)
	case op.Amount < 0, op.Hold < 0:
		a.endPause()
	}
}

// Apply asks the wrapped store. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "apply", err)
	}
	for _, txn := range txns {
		for i := range txn {
			if err := s.end(ctx, &txn[i]); err != nil {
				return nil, store.Wrap(backend, "apply", err)
			}
		}
	}
	results, err := s.inner.Apply(ctx, txns...)
	for i, txn := range txns {
		for j := range txn {
			var st store.State
			if i < len(results) && j < len(results[i].States) {
				st = results[i].States[j]
			}
			if txn[j].Mode != store.Ask {
				s.bypassed(&txn[j], &st, err)
			}
		}
	}
	return results, err
}

// Read asks the wrapped store, which counts allotments in the level. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.check(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	return s.inner.Read(ctx, buckets...)
}

// Delete removes buckets from the wrapped store and ends this Store's allotments of them. See
// [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.check(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	err := s.inner.Delete(ctx, keys...)
	for _, key := range keys {
		h := s.table.hash(key)
		if a := s.table.find(h, key); a != nil {
			s.table.drop(h, a) // also after an error: the bucket may be gone
		}
	}
	return err
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

// Prune asks the wrapped store. See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) {
	if err := s.check(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	return s.inner.Prune(ctx)
}

// Close cancels pending requests for allotments, waits for their goroutines and closes the
// wrapped store. Unused units leak from the buckets. Closing twice is allowed.
func (s *Store) Close() error {
	s.starting.Lock()
	again := s.closed.Swap(true)
	s.starting.Unlock()
	s.cancel()
	s.requests.Wait()
	err := s.inner.Close()
	s.table.clear()
	if again && errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}
