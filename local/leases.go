package local

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// LeasesOptions adjust [Leases]. The zero value selects the defaults. All processes that share
// buckets should use the same Share.
type LeasesOptions struct {
	// Share is the part of a bucket's capacity, above 0 and below 1, to which allotments may fill
	// the bucket; 0 means 0.25. It limits the units that leases may waste: see the package comment.
	Share float64
	// Ahead is the time for which an allotment should last at the current demand; 0 means 20
	// milliseconds. It should be several times the duration of a call to the store.
	Ahead time.Duration
	// MaxBuckets is the approximate number of buckets that may have allotments, and at most that
	// number if it is 7 or more; 0 means 16,384. A bucket that another bucket displaces loses its
	// allotment and nothing else. The table allocates 5 to 10 bytes for each of MaxBuckets at once.
	MaxBuckets int
	// Clock replaces the system's monotonic and wall clocks, for tests. It must be safe for
	// concurrent use.
	Clock func() time.Time
}

// Leases returns a store over s that serves busy buckets from allotments; o may be nil. If s is
// nil, the error is [store.ErrClosed]. It also fails if an option is out of range.
//
// The store runs a goroutine only while it asks for an allotment; Close waits for that goroutine,
// and the unused units leak from the buckets. If the context of a caller ends while it waits for
// the pending request of an allotment, it gets the context's error, and nothing was sent for it.
func Leases(s store.Store, o *LeasesOptions) (store.Store, error) {
	if o == nil {
		o = &LeasesOptions{}
	}
	var err error
	switch {
	case !(o.Share >= 0 && o.Share < 1):
		err = fmt.Errorf("Share is %v; it must be over 0 and under 1, or 0 for 0.25", o.Share)
	case o.Ahead < 0:
		err = fmt.Errorf("Ahead is %v; it must be positive, or 0 for 20ms", o.Ahead)
	}
	l := &leases{share: cmp.Or(o.Share, 0.25), ahead: cmp.Or(o.Ahead, 20*time.Millisecond)}
	if err := l.open("leases", s, o.MaxBuckets, o.Clock, err); err != nil {
		return nil, err
	}
	l.table = newTable[accountSet](float64(cmp.Or(o.MaxBuckets, 1<<14)) / 2)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.now = func() instant {
		if l.clock != nil {
			now := l.clock().UnixNano()
			return instant{mono: now, wall: now}
		}
		now := time.Now()
		return instant{mono: int64(now.Sub(l.start)), wall: now.UnixNano()}
	}
	return l, nil
}

// leases is the store of [Leases].
type leases struct {
	wrapper
	table[accountSet]
	share float64
	ahead time.Duration
	now   func() instant
	// recent holds the approximate time of the last call on buckets without an account. A bucket
	// with rare calls needs no account.
	recent [1 << 12]atomic.Uint64

	ctx      context.Context // of the requests for allotments
	cancel   context.CancelFunc
	starting sync.Mutex // held to start a request, and by Close to forbid further ones
	requests sync.WaitGroup
}

// Fill serves op from the bucket's allotment if it can, and asks the wrapped store otherwise.
func (l *leases) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if err = l.check(ctx, "fill"); err != nil {
		return st, err
	}
	as, h := l.at(op.Key)
	a := as.find(h, op.Key)
	if a != nil && a.bucket.Limit != op.Limit {
		if err = l.end(ctx, "fill", as, a, &op); err != nil {
			return st, err
		}
		a = nil
	}
	if !leasable(&op) {
		st, err = l.Store.Fill(ctx, op)
		l.bypassed(&op, &st, err)
		return st, err
	}
	now, ask := l.now(), op.Mode == store.Ask
	if a == nil {
		if !ask && l.busy(h, now.mono) {
			as.insert(h, op.Bucket, now, l.ahead)
		}
		return l.Store.Fill(ctx, op)
	}
	current := a.allotment.Load()
	switch {
	case current.serve(op.Amount, now, ask):
		if !ask && current.low() && current.prefetched.CompareAndSwap(false, true) {
			l.prefetch(a, op.Amount, now)
		}
		current.state(&st, &op, now)
		return st, nil
	case ask:
		return l.Store.Fill(ctx, op)
	}
	return l.await(ctx, a, &op)
}

// leasable reports whether op may be served from an allotment. A bucket that does not leak gets
// no allotments: units of a lost allotment would stay in the bucket for ever. A Shaper gets none,
// because the units of an allotment have had their turn already.
func leasable(op *store.Op) bool {
	return (op.Mode == store.IfFits || op.Mode == store.Ask) && op.Amount > 0 && op.Hold == 0 && op.Ceiling == 0 &&
		op.BlockFor == 0 && op.LeakRate > 0 && !op.Turn
}

// busy records a call on the bucket at now. It reports whether the previous call was at most Ahead
// earlier. Two buckets may share a slot; a call on one then hides earlier calls on the other.
func (l *leases) busy(h uint64, now int64) bool {
	const unit = 1 << 20 // nanoseconds, about a millisecond
	slot := &l.recent[h>>20%uint64(len(l.recent))]
	mark := h&0xffffff<<40 | uint64(now/unit)&(1<<40-1) // 24 bits of the hash, 40 bits of time
	before := slot.Load()
	if before != mark {
		slot.Store(mark)
	}
	if before>>40 != mark>>40 {
		return false
	}
	elapsed := int64(mark&(1<<40-1)) - int64(before&(1<<40-1))
	return before != 0 && elapsed >= 0 && elapsed <= int64(l.ahead)/unit
}

// bypassed updates the bucket's account after a call that bypassed its allotment, with its answer
// or its error. A block ends the account. So do units beyond the capacity, in the bucket or
// spilled: without leases, the bucket would be full. After a drain, a release or the end of a
// block, the next allotment may be requested at once.
func (l *leases) bypassed(op *store.Op, st *store.State, err error) {
	as, h := l.at(op.Key)
	a := as.find(h, op.Key)
	refused := err != nil || !st.Accepted
	switch {
	case a == nil, op.Mode == store.Ask:
	case op.BlockFor != 0 && (refused || op.Mode == store.Block),
		op.Amount > 0 && op.Mode != store.IfFits && op.Mode != store.UpTo && (refused || st.Level+st.Held > st.Capacity):
		as.drop(a)
	case op.Mode == store.Unblock, op.Amount < 0, op.Hold < 0:
		a.mu.Lock()
		a.pausedUntil = 0
		a.mu.Unlock()
	}
}

// Apply asks the wrapped store. Before that, it ends the allotments of buckets whose limit changes.
func (l *leases) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	for _, txn := range txns {
		for i := range txn {
			as, h := l.at(txn[i].Key)
			if a := as.find(h, txn[i].Key); a != nil && a.bucket.Limit != txn[i].Limit {
				if err := l.end(ctx, "apply", as, a, &txn[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	results, err := l.Store.Apply(ctx, txns...)
	for i, txn := range txns {
		for j := range txn {
			var st store.State
			if i < len(results) && j < len(results[i].States) {
				st = results[i].States[j]
			}
			l.bypassed(&txn[j], &st, err)
		}
	}
	return results, err
}

// Delete removes buckets from the wrapped store and ends their allotments, also after an error: the
// bucket may be gone.
func (l *leases) Delete(ctx context.Context, keys ...string) error {
	err := l.Store.Delete(ctx, keys...)
	for _, key := range keys {
		as, h := l.at(key)
		if a := as.find(h, key); a != nil {
			as.drop(a)
		}
	}
	return err
}

// Close cancels pending requests for allotments, waits for their goroutines and closes the wrapped
// store.
func (l *leases) Close() error {
	l.starting.Lock()
	l.closed.Store(true)
	l.starting.Unlock()
	l.cancel()
	l.requests.Wait()
	for i := range l.sets {
		l.sets[i].clear()
	}
	return l.Store.Close()
}
