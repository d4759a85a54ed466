package local

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

const (
	// minCalls is the least number of calls that an allotment must serve. A smaller allotment
	// costs more than single calls to the store.
	minCalls = 4
	// maxGrowth limits an allotment to this multiple of the one before. The demand is an
	// estimate.
	maxGrowth = 4
	// maxAge limits the leak that an allotment may cover, and the time for which unused units
	// last.
	maxAge = time.Second
	// maxPart is the part of the share that one allotment may take, so that several processes can
	// have allotments.
	maxPart = 0.25
	// errorPause is the pause between a request that failed and the next request.
	errorPause = 100 * time.Millisecond
	// refusalPause is the least pause between a request that was refused and the next request.
	refusalPause = time.Millisecond
	// requestTimeout limits the duration of a request.
	requestTimeout = 10 * time.Second
)

// account holds this process's allotment of one bucket, and the demand that sizes the next one.
type account struct {
	bucket    store.Bucket
	opened    instant
	allotment atomic.Pointer[allotment] // the current one; nil before the first

	mu          sync.Mutex
	closed      bool          // out of the table: the account gets no more allotments
	pending     chan struct{} // closed when the pending request has ended; nil if none is pending
	size        float64       // units of the last request
	pausedUntil int64         // no request before this time on the monotonic clock
	countedFrom instant       // served counts from here
	served      float64       // units served since countedFrom, without those of the current allotment
	demand      float64       // units per second
}

// close ends the account's allotment and discards the allotment of a pending request. It returns
// the channel that is closed when that request has ended, or nil. The balance of a later account of
// the same bucket starts at zero. Zero is less than the true balance. The bound still holds,
// because nobody serves the units of the closed account any more.
func (a *account) close() (pending <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.allotment.Load().end(instant{})
	return a.pending
}

// accountSet is a set of accounts.
type accountSet struct{ set[account] }

// insert adds an account for b, unless there is one already or the set has no place for it.
//
// In a full set, the oldest account gives its place, but not before it is as old as stay. If every
// newcomer pushed an account out, no account would live long enough to measure its bucket's demand,
// and no bucket would get an allotment. The account loses its allotment and nothing else.
func (as *accountSet) insert(h uint64, b store.Bucket, now instant, stay time.Duration) {
	as.mu.Lock()
	defer as.mu.Unlock()
	w := as.victim(func(a *account) int64 { return a.opened.mono })
	if as.find(h, b.Key) != nil {
		return
	}
	if old := as.ways[w].Load(); old != nil {
		if now.since(old.v.opened) < int64(stay) {
			return
		}
		old.v.close()
	}
	e := newEntry[account](h, b.Key)
	e.v.bucket = store.Bucket{Key: strings.Clone(b.Key), Limit: b.Limit} // Key may be part of a large buffer
	e.v.opened, e.v.countedFrom = now, now
	as.put(w, e)
}

// drop closes the account a and removes it from the set.
func (as *accountSet) drop(a *account) (pending <-chan struct{}) {
	pending = a.close()
	as.mu.Lock()
	defer as.mu.Unlock()
	if w := as.wayOf(a); w >= 0 {
		as.put(w, nil)
	}
	return pending
}

// clear removes all accounts.
func (as *accountSet) clear() {
	as.mu.Lock()
	defer as.mu.Unlock()
	for w := range ways {
		as.put(w, nil)
	}
}

// end drops the account a before a call of method with another limit, and waits for a pending
// request. That request goes out with the old limit. If it came after the call, the bucket would
// leak at the old rate again.
func (l *leases) end(ctx context.Context, method string, as *accountSet, a *account, op *store.Op) error {
	if op.Limit == (store.Limit{}) || op.Mode == store.Ask || op.Mode == store.Unblock { // it writes no limit
		return nil
	}
	if pending := as.drop(a); pending != nil {
		return l.wait(ctx, method, pending)
	}
	return nil
}

// nextSize returns the units to request when a call asks for n units of the bucket. It returns 0
// if the call should ask the store for its n units alone. The account is locked.
func (l *leases) nextSize(a *account, n float64, now instant) float64 {
	limit, ahead := a.bucket.Limit, l.ahead.Seconds()
	// A shorter measurement would take a few simultaneous callers for a flood.
	if elapsed := float64(now.since(a.countedFrom)) / 1e9; elapsed > ahead/8 {
		rate := (a.served + a.allotment.Load().served()) / elapsed
		a.demand = (a.demand + rate) / 2
		a.countedFrom, a.served = now, -a.allotment.Load().served()
	}
	if a.closed || now.mono < a.pausedUntil {
		return 0
	}
	// An allotment must also cover the leak of its balance. If the demand is larger than the
	// leak, nothing is wasted: the balance then leaks units that were served.
	size := max(a.demand, limit.LeakRate) * ahead
	size = min(size, maxGrowth*max(a.size, minCalls*n), limit.LeakRate*maxAge.Seconds(), maxPart*l.share*limit.Capacity)
	if a.demand*ahead < minCalls*n || size < minCalls*n {
		return 0
	}
	if size > 1<<4 {
		size = math.Floor(size) // keeps levels exact if all costs are integers
	}
	if limit.Capacity+size == limit.Capacity {
		return 0 // the amount is invalid: it is lost in the rounding of the capacity
	}
	return size
}

// prefetch requests the next allotment before the current one is used up. n is the amount of the
// call that found the allotment low.
func (l *leases) prefetch(a *account, n float64, now instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		if size := l.nextSize(a, n, now); size > 0 {
			l.request(a, size)
		}
	}
}

// await decides an op that the current allotment cannot serve. It requests an allotment, or waits
// for the pending one, and serves op from it. If there is no allotment to request, await lets the
// store decide op alone.
func (l *leases) await(ctx context.Context, a *account, op *store.Op) (st store.State, err error) {
	for range maxWaits {
		now := l.now()
		a.mu.Lock()
		if current := a.allotment.Load(); current.serve(op.Amount, now, false) {
			a.mu.Unlock()
			current.state(&st, op, now)
			return st, nil
		}
		if a.pending == nil {
			if size := l.nextSize(a, op.Amount, now); size == 0 || !l.request(a, size) {
				a.served += op.Amount
				a.mu.Unlock()
				break
			}
		}
		pending := a.pending
		a.mu.Unlock()
		if err := l.wait(ctx, "fill", pending); err != nil {
			return st, err
		}
	}
	return l.Store.Fill(ctx, *op)
}

// request asks the store for an allotment of size units, in a goroutine of its own. The request
// does not end with the context of a caller, because other callers may wait for the allotment,
// too. request returns false if the wrapper is closed. The account is locked.
func (l *leases) request(a *account, size float64) bool {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.closed.Load() {
		return false
	}
	pending := make(chan struct{})
	a.pending = pending
	l.requests.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, requestTimeout)
		defer cancel()
		asked := l.now()
		balance := a.allotment.Load().balanceAt(asked) // only this goroutine replaces the allotment
		op := store.Op{Bucket: a.bucket, Amount: size, Mode: store.IfFits, Ceiling: l.share * a.bucket.Capacity}
		// If the fill fails, it may have gone in. Its units then leak from the bucket unused.
		st, err := l.Store.Fill(ctx, op)
		received := l.now()
		a.mu.Lock()
		defer a.mu.Unlock()
		current := a.allotment.Load()
		switch {
		case a.closed: // the bucket may have been reset since, and the grant with it
		case err != nil:
			a.pausedUntil = received.mono + int64(errorPause)
			current.allowPrefetch()
		case !st.Accepted:
			a.pausedUntil = received.mono + int64(max(refusalPause, min(st.RetryAfter, maxAge)))
			a.size = size / 2
			current.allowPrefetch()
		default:
			a.size = size
			a.grant(&st, asked, received, balance)
		}
		a.pending = nil
		close(pending)
	})
	return true
}

// grant puts an allotment of a.size units that the store has granted to use, together with the rest
// of the one before, whose balance was before when the request was made. The account is locked.
func (a *account) grant(st *store.State, asked, received instant, before float64) {
	rate := a.bucket.LeakRate * margin / 1e9
	balance, unused, served := a.allotment.Load().end(received)
	a.served += served
	// The leak since the request takes the older units of the balance first, and then the
	// grant's.
	left := max(0, a.size-max(0, rate*float64(received.since(asked))-before))
	a.allotment.Store(&allotment{
		start: received, units: unused + left, balance: balance + left, rate: rate, asked: asked,
		bucket: store.Record{Level: st.Level, Held: st.Held, Time: st.At.UnixMicro(), Limit: a.bucket.Limit},
	})
}
