package lease

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// account holds this process's allotment of one bucket, and the demand that sizes the next one.
type account struct {
	key       string
	hash      uint64 // of the key, in the table
	limit     store.Limit
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

// newAccount returns an account without an allotment.
func newAccount(b store.Bucket, hash uint64, now instant) *account {
	// Without the clone, the account would retain a large buffer if the key is a part of one.
	return &account{key: strings.Clone(b.Key), hash: hash, limit: b.Limit, opened: now, countedFrom: now}
}

// close ends the account's allotment and discards the allotment of a pending request. The balance
// of a later account of the same bucket starts at zero. Zero is less than the true balance. The
// bound still holds, because nobody serves the units of the closed account any more.
func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.allotment.Load().end(instant{})
}

// closeIdle closes the account if closing it wastes no units. It reports whether it closed the
// account.
func (a *account) closeIdle(now instant) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending != nil {
		return false
	}
	current := a.allotment.Load()
	idle := current == nil || now.since(current.start) > int64(maxAge)
	a.closed = a.closed || idle
	return idle
}

// endPause lets the next caller request an allotment at once.
func (a *account) endPause() {
	a.mu.Lock()
	a.pausedUntil = 0
	a.mu.Unlock()
}

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
)

// nextSize returns the units to request when a call asks for n units of the bucket. It returns 0
// if the call should ask the store for its n units alone. share and ahead are those of the Store.
// The account is locked.
func (a *account) nextSize(n float64, share, ahead float64, now instant) float64 {
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
	size := max(a.demand, a.limit.LeakRate) * ahead
	size = min(size, maxGrowth*max(a.size, minCalls*n), a.limit.LeakRate*maxAge.Seconds(),
		maxPart*share*a.limit.Capacity)
	if a.demand*ahead < minCalls*n || size < minCalls*n {
		return 0
	}
	if size > 1<<4 {
		size = math.Floor(size) // keeps levels exact if all costs are integers
	}
	if a.limit.Capacity+size == a.limit.Capacity {
		return 0 // the amount is invalid: it is lost in the rounding of the capacity
	}
	return size
}
