package refusals

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/brimgo/brim/store"
)

// cacheSet is one set of a set-associative cache. The low bits of a key's hash choose the set;
// the buckets of one set compete for its ways.
//
// A lookup reads the first cache line of the set and the snapshot that a way points to, and
// writes nothing. Only callers that go to the store use the second cache line.
type cacheSet struct {
	tags atomic.Uint64 // one byte of the hash for each way, so that a lookup skips other keys; 0: free
	ways [ways]atomic.Pointer[snapshot]

	mu sync.Mutex // held to change the set
	// generation changes with each event that may have made room in a bucket of the set, or that
	// came with another limit.
	generation atomic.Uint64
	// The limit of the set's last call to the store, as float64 bits. Two limits for one key are
	// two rules: an answer under one limit tells nothing about the other.
	capacity, leakRate atomic.Uint64
	_                  [32]byte
}

const ways = 7

// maxSets bounds the table. It holds more buckets than fit into the memory of any machine.
const maxSets = 1 << 30

// setsFor returns the number of sets for that many buckets: a power of two that leaves room for
// twice as many buckets, so that hardly any set has to evict one.
func setsFor(buckets int) int {
	n := 1
	for n < maxSets && int64(n)*ways/2 < int64(buckets) {
		n *= 2
	}
	return n
}

// tag returns the highest byte of the hash, or 1 if that is 0: a tag is never 0.
func tag(hash uint64) uint64 { return max(1, hash>>56) }

// find returns the snapshot of key, or nil.
func (cs *cacheSet) find(hash uint64, key string) *snapshot {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x := cs.tags.Load() ^ tag(hash)*ones
	// A byte that equals the tag is zero in x, and its high bit is set in m. The high bit of the
	// byte above may be set by mistake, so the snapshot's key decides.
	for m := (x - ones) &^ x & highs; m != 0; m &= m - 1 {
		w := bits.TrailingZeros64(m) / 8
		if w >= ways {
			break
		}
		if e := cs.ways[w].Load(); e != nil && e.hash == hash && e.hasKey(key) {
			return e
		}
	}
	return nil
}

// put publishes e in way w. A nil e frees the way. The set is locked.
func (cs *cacheSet) put(w int, e *snapshot) {
	if old := cs.ways[w].Load(); old != nil {
		old.notify()
	}
	var t uint64
	if e != nil {
		t = tag(e.hash)
	}
	cs.ways[w].Store(e)
	cs.tags.Store(cs.tags.Load()&^(0xff<<(8*w)) | t<<(8*w))
}

// wayOf returns the way that holds e, or -1. The set is locked.
func (cs *cacheSet) wayOf(e *snapshot) int {
	for w := range ways {
		if cs.ways[w].Load() == e {
			return w
		}
	}
	return -1
}

// victim returns the way for a new snapshot: a free way, or the way of the snapshot that expires
// first. The set is locked.
func (cs *cacheSet) victim(remember int64) int {
	earliest, victim := int64(math.MaxInt64), 0
	for w := range ways {
		e := cs.ways[w].Load()
		if e == nil {
			return w
		}
		if expires := e.sent + min(e.wait, remember); expires < earliest {
			earliest, victim = expires, w
		}
	}
	return victim
}

// remove drops the snapshot of key. The set is locked.
func (cs *cacheSet) remove(hash uint64, key string) {
	if e := cs.find(hash, key); e != nil {
		cs.put(cs.wayOf(e), nil)
	}
}

// forget drops the snapshot of key. The set then ignores answers that are still on their way.
func (cs *cacheSet) forget(hash uint64, key string) {
	cs.mu.Lock()
	cs.remove(hash, key)
	cs.generation.Add(1)
	cs.mu.Unlock()
}

// clear drops all snapshots. The set then ignores answers that are still on their way.
func (cs *cacheSet) clear() {
	cs.mu.Lock()
	if cs.tags.Load() != 0 { // most sets are empty
		for w := range ways {
			cs.put(w, nil)
		}
	}
	cs.generation.Add(1)
	cs.mu.Unlock()
}

// begin records that a question with limit is about to be sent. It returns the generation that
// learn compares when the answer has come.
func (cs *cacheSet) begin(limit store.Limit) (generation uint64) {
	generation = cs.generation.Load() // read before the limit, so that learn notices a later change of the limit
	if !cs.lastLimitIs(limit) {
		cs.mu.Lock()
		cs.capacity.Store(math.Float64bits(limit.Capacity))
		cs.leakRate.Store(math.Float64bits(limit.LeakRate))
		generation = cs.generation.Add(1)
		cs.mu.Unlock()
	}
	return generation
}

// lastLimitIs reports whether the set's last question came with limit.
func (cs *cacheSet) lastLimitIs(limit store.Limit) bool {
	return cs.capacity.Load() == math.Float64bits(limit.Capacity) &&
		cs.leakRate.Load() == math.Float64bits(limit.LeakRate)
}

// learn publishes the snapshot e of an answer, unless the generation has changed since the
// question or the set holds a better snapshot. The set is locked.
func (cs *cacheSet) learn(hash uint64, key string, e snapshot, refused bool, generation uint64, remember int64) {
	old := cs.find(hash, key)
	if !cs.lastLimitIs(e.rec.Limit) || old != nil && old.rec.Limit != e.rec.Limit {
		// A question with another limit was in flight at the same time. Nobody can tell which
		// question the store answered first, so the set keeps neither answer.
		cs.remove(hash, key)
		cs.generation.Add(1)
		return
	}
	if cs.generation.Load() != generation || old != nil && !e.supersedes(old) {
		return
	}
	if !refused && e.wait == 0 {
		// The same amount would fit again. The amount that the old snapshot refuses may still not
		// fit.
		if old == nil || !e.precompute(old.amount) {
			cs.remove(hash, key)
			return
		}
	}
	var w int
	if old != nil {
		w = cs.wayOf(old)
		if e.overlaps(old) {
			e.minClock = max(e.minClock, old.minClockAt(e.received))
		}
		e.key, e.longKey, e.calls, e.units = old.key, old.longKey, old.calls, old.units
	} else {
		w = cs.victim(remember)
		e.setKey(key)
	}
	e.hash = hash
	cs.put(w, &e)
}

// adopt replaces the provisional amount of e by n, an amount that the bucket has just refused.
// The calls of a flood often ask for another amount than the fill that left the bucket full.
//
// The replacement only makes later refusals cheaper, so adopt gives up if another caller holds
// the set's lock.
func (cs *cacheSet) adopt(e *snapshot, n float64) {
	if !cs.mu.TryLock() {
		return
	}
	defer cs.mu.Unlock()
	if w := cs.wayOf(e); w >= 0 {
		adopted := *e
		adopted.changed = nil // put notifies the callers that wait at e
		if adopted.precompute(n) {
			adopted.provisional = false
			cs.put(w, &adopted)
		}
	}
}
